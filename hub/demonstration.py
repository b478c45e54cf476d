"""A hub for a look on this machine, with two students and an instructor: `python course.py hub`.

Everything is in _build/hub, which each start makes again. All three people are the same user of
the system here, so nothing is protected: README.md says how a school's hub differs.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import proxy

HUB = Path(__file__).resolve().parent
ROOT = HUB.parent
FOLDER = ROOT / "_build" / "hub"
PEOPLE = ("ada", "boris", "grace")
INSTRUCTOR = "grace"
EXERCISE = "01-qkv"
ADDRESS, PORT = "127.0.0.1", 8000
SETTINGS = """\
address = "http://{address}:{port}"
course = '{folder}/course'
instructor = "{instructor}"
group = "students"
exchange = '{folder}/exchange'
state = '{folder}/state'
"""
OF_THE_COURSE = f"""
c.Exchange.root = {str(FOLDER / "exchange")!r}
c.Watch.check_owner = False  # one user of the system for all: only for a look
"""


def free_ports(count):
    """Return ports that no program uses."""
    # All stay open until the last one is bound, so that no port comes twice.
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((ADDRESS, 0))
        return [probe.getsockname()[1] for probe in probes]


def check_port():
    """End with one line if another program uses the hub's port."""
    with socket.socket() as probe:
        # a port that a program used a moment ago is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, PORT))
        except OSError:
            sys.exit(f"Port {PORT} is used by another program. Stop it first.")


def make_course():
    """Make the folders, and a course with one exercise that is released to students."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    course = FOLDER / "course"
    for name in ("state", "exchange", *(f"homes/{person}" for person in PEOPLE)):
        (FOLDER / name).mkdir(parents=True)
    (FOLDER / "exchange").chmod(0o1777)
    shutil.copytree(ROOT / "exercises" / EXERCISE, course / "exercises" / EXERCISE)
    text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (course / "nbgrader_config.py").write_text(text + OF_THE_COURSE, encoding="utf-8")
    settings = SETTINGS.format(address=ADDRESS, port=PORT, folder=FOLDER, instructor=INSTRUCTOR)
    (FOLDER / "settings.toml").write_text(settings, encoding="utf-8")
    release = [sys.executable, "-m", "nbgrader", "release_assignment", EXERCISE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(release, cwd=course, env=environment, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{result.stderr}\nnbgrader could not release {EXERCISE} (see above).")


def main():
    """Make the course, say who can log in, and become the hub, which Ctrl-C stops."""
    check_port()
    if not proxy.is_fetched():
        proxy.fetch()
    make_course()
    password = secrets.token_urlsafe(6)
    print(f"The hub: http://{ADDRESS}:{PORT} (stop with Ctrl-C)")
    for person in PEOPLE:
        role = "instructor" if person == INSTRUCTOR else "student"
        print(f"  {person:<6} password {password}  ({role})")
    print("This is only for a look: all people are one user of the system, which protects nobody.")
    sys.stdout.flush()
    hub_port, proxy_port = free_ports(2)
    environment = {
        **os.environ,
        "HUB_SETTINGS": str(FOLDER / "settings.toml"),
        "HUB_PASSWORD": password,
        "HUB_PORT": str(hub_port),
        "HUB_PROXY_PORT": str(proxy_port),
    }
    config = HUB / "demonstration_config.py"
    command = [sys.executable, "-m", "jupyterhub", "--config", str(config), "--log-level", "WARN"]
    os.chdir(FOLDER)
    os.execve(sys.executable, command, environment)  # noqa: S606 (a command of ours)


if __name__ == "__main__":
    main()

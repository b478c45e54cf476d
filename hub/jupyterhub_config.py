"""JupyterHub's configuration for a class: accounts of the machine, nbgrader, and what grades.

    sudo /opt/attention/bin/jupyterhub --config /srv/hub/jupyterhub_config.py

`settings.toml`, next to this file, has what differs between schools. README.md explains the files.
"""

import os
import sys
import tomllib
from pathlib import Path

HUB = Path(__file__).resolve().parent
sys.path.insert(0, str(HUB))

import proxy  # noqa: E402 (it is next to this file)

c = get_config()  # noqa: F821 (traitlets puts it here)

path = Path(os.environ.get("HUB_SETTINGS", HUB / "settings.toml"))
if not path.exists():
    sys.exit(f"{path} is missing. Copy settings-example.toml, and change what differs for you.")
settings = tomllib.loads(path.read_text(encoding="utf-8"))
state = Path(settings["state"])
programs = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

c.JupyterHub.bind_url = settings["address"]
c.JupyterHub.db_url = f"sqlite:///{state}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(state / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(state / "proxy.pid")
c.ConfigurableHTTPProxy.command = proxy.command()

# Each person is a user of this machine, with their own password and a home that others cannot
# read. Only members of the group and the instructor may log in.
c.LocalAuthenticator.allowed_groups = {settings["group"]}
c.Authenticator.allowed_users = {settings["instructor"]}
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab"
# Seconds for a server to start: when a lesson begins, all of them start at once.
c.Spawner.start_timeout = 300
c.Spawner.http_timeout = 300


def settings_of(spawner):
    """Return the folder with the Jupyter settings of a person."""
    is_instructor = spawner.user.name == settings["instructor"]
    return str(HUB / ("instructors" if is_instructor else "students"))


def packages_of(spawner):
    """Return the folder of packages for a person: formgrader uses those of the course."""
    return settings["course"] if spawner.user.name == settings["instructor"] else ""


# `students/` and `instructors/` have nbgrader's settings and JupyterLab's; these are the values.
c.Spawner.environment = {
    "PATH": programs,
    "PYTHONPATH": packages_of,
    "JUPYTER_CONFIG_PATH": settings_of,
    "NBGRADER_EXCHANGE": settings["exchange"],
    "NBGRADER_COURSE": settings["course"],
}

# Takes what students hand in, grades it, and returns feedback. JupyterHub starts it again if it
# ends. It belongs to the instructor, the only one who can read the course's folder.
watch = [sys.executable, "-m", "autograder", "watch", "--json"]
c.JupyterHub.services = [
    {
        "name": "watch",
        "command": [*watch, "--course", settings["course"]],
        "cwd": settings["course"],
        "user": settings["instructor"],
        "environment": {"PATH": programs},
    }
]

# Students log in through the school's learning platform instead, if settings.toml has [lti].
if "lti" in settings:
    import lti

    lti.log_in(c, settings)

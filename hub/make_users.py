"""Make accounts for students, and the folder through which nbgrader passes files. Run it as root.

sudo /opt/attention/bin/python /srv/hub/make_users.py ada boris

prints each new account with its password. Homes are private: an account of that name that exists
stays as it is, but its home becomes private as well.
"""

import argparse
import grp
import os
import pwd
import re
import secrets
import subprocess
import sys
import tomllib
from pathlib import Path

HUB = Path(__file__).resolve().parent
PRIVATE, SHARED = 0o700, 0o1777  # in a shared folder, people can rename only what belongs to them


def has(find, name):
    """Tell whether the machine has an account or a group of this name."""
    try:
        find(name)
    except KeyError:
        return False
    return True


def make_account(name, group):
    """Make an account where there is none, and make its home private; print a new password."""
    if not has(pwd.getpwnam, name):
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
        password = secrets.token_urlsafe(9)
        subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
        print(f"{name} {password}")
    if group:
        subprocess.run(["usermod", "--append", "--groups", group, name], check=True)
    Path(pwd.getpwnam(name).pw_dir).chmod(PRIVATE)


def main():
    """Make what is missing; end with one line if a name is unusable."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the students' account names")
    names = parser.parse_args().names
    path = HUB / "settings.toml"
    if not path.exists():
        sys.exit(f"{path} is missing. Copy settings-example.toml, and change what differs for you.")
    settings = tomllib.loads(path.read_text(encoding="utf-8"))
    strange = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9._-]{0,30}", name)]
    if strange:
        sys.exit(
            f"{strange[0]} cannot be an account name: use small letters, digits, '.', '-' and '_'."
        )
    if os.geteuid() != 0:
        sys.exit("Only root can make accounts. Run this with sudo.")
    if not has(grp.getgrnam, settings["group"]):
        subprocess.run(["groupadd", settings["group"]], check=True)
    make_account(settings["instructor"], group="")
    for name in names:
        make_account(name, settings["group"])
    for path, mode in ((settings["exchange"], SHARED), (settings["state"], PRIVATE)):
        Path(path).mkdir(parents=True, exist_ok=True)
        Path(path).chmod(mode)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} refused (see above), status {error.returncode}.")

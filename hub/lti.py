"""Logging in through the school's learning platform, by LTI 1.3.

The platform says who somebody is; the account on this machine has to exist already. Each login
also says under which number the platform knows a person. The instructor's says where the platform
takes scores: a student could come from another course of the platform. `remember` writes that down
for `watch` and `export --for lti`, which run as the instructor.
"""

import json
import os
import pwd
import tempfile
from functools import partial
from pathlib import Path

from jupyterhub.auth import LocalAuthenticator
from ltiauthenticator.lti13.auth import LTI13Authenticator

SCORES = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
FOLDER_MODE, FILE_MODE = 0o750, 0o640


class LTIAuthenticator(LocalAuthenticator, LTI13Authenticator):
    """People log in through the platform, if they have an account here that may log in."""

    def check_allowed(self, username, authentication=None):
        """Tell whether somebody may log in: JupyterHub expects that there is an account."""
        try:
            pwd.getpwnam(username)
        except KeyError:
            return False
        return super().check_allowed(username, authentication)


def log_in(c, settings):
    """Configure the hub for the platform that settings.toml describes."""
    platform = settings["lti"]
    c.JupyterHub.authenticator_class = LTIAuthenticator
    c.LTIAuthenticator.issuer = platform["issuer"]
    c.LTIAuthenticator.client_id = {platform["client_id"]}
    c.LTIAuthenticator.authorize_url = platform["authorize_url"]
    c.LTIAuthenticator.jwks_endpoint = platform["jwks_url"]
    c.LTIAuthenticator.username_key = platform["username"]
    path, instructor = Path(platform["launches"]), pwd.getpwnam(settings["instructor"])
    c.Authenticator.post_auth_hook = partial(remember, path, instructor)


def remember(path, instructor, authenticator, handler, authentication):
    """Write down under which number the platform knows this person, and where it takes scores if
    that is the instructor.
    """
    claims = authentication["auth_state"]
    launches = {"lineitems": "", "scope": [], "people": {}}
    if path.exists():
        launches = json.loads(path.read_text(encoding="utf-8"))
    endpoint = claims.get(SCORES, {})
    if authentication["name"] == instructor.pw_name and endpoint.get("lineitems"):
        launches["lineitems"] = endpoint["lineitems"]
        launches["scope"] = endpoint.get("scope", [])
    launches["people"][authentication["name"]] = claims["sub"]
    write(path, json.dumps(launches, indent=1), instructor.pw_gid)
    return authentication


def write(path, text, group):
    """Replace a file at once; only root writes it, and a group may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.chown(path.parent, -1, group)
    path.parent.chmod(FOLDER_MODE)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    os.chown(file.name, -1, group)
    Path(file.name).chmod(FILE_MODE)
    Path(file.name).replace(path)

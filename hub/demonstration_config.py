"""JupyterHub's configuration for a look on one's own machine; demonstration.py starts it."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from demonstration import FOLDER, HUB, PEOPLE, ROOT

c = get_config()  # noqa: F821 (traitlets puts it here)
load_subconfig(str(HUB / "jupyterhub_config.py"))  # noqa: F821 (traitlets puts it here)

c.JupyterHub.hub_port = int(os.environ.pop("HUB_PORT"))
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ.pop('HUB_PROXY_PORT')}"
# One password, and one user of the system, for all.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ.pop("HUB_PASSWORD")
c.Authenticator.allowed_users = set(PEOPLE)
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = f"{FOLDER}/homes/{{username}}"
if os.geteuid() == 0:
    c.Spawner.args = ["--allow-root"]
(watch,) = c.JupyterHub.services
del watch["user"]
watch["environment"]["PYTHONPATH"] = str(ROOT)

"""Links that open a notebook where nothing has to be installed: in Google's Colab, and in Binder.

Both read it from a branch of the repository, which publishing the book writes
(`.github/workflows/publish.yml`). Where `_config.yml` has no `repository: url:` on GitHub, there is
no such link.
"""

from pathlib import Path
from urllib.parse import quote

from docutils import nodes
from sphinx.locale import get_translation

from autograder.authoring import published

_ = get_translation("extensions")
BRANCH = "notebooks"


def links(env, path, *classes):
    """Return the links that open the notebook at a path of the branch, each with these classes;
    perhaps none.
    """
    root = Path(env.srcdir)
    # a page is read anew when the address changes
    env.note_dependency(str(root / published.CONFIG))
    repository = published.repository(root)
    if not repository:
        return []
    colab = f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{quote(path)}"
    binder = f"https://mybinder.org/v2/gh/{repository}/{BRANCH}?labpath={quote(path, safe='')}"
    places = {_("Open in Colab"): colab, _("Open in Binder"): binder}
    return [
        nodes.reference("", text, refuri=to, classes=["abh-elsewhere", *classes])
        for text, to in places.items()
    ]

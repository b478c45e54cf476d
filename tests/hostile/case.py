"""What a case of the corpus is: one submission to the toy exercise, and the outcome that it must
have.

Every case is small and bounded: run unprotected in a throw-away folder, it harms no machine.

Some cases try to show what is not theirs. Whoever grades the corpus therefore puts these beside it:
a student `NEIGHBOUR` whose submission holds the words `WORK`, and an environment variable
`GRADERS_TOKEN` with the words `TOKEN`. A case that succeeds in reaching a network prints `REACHED`.
"""

import html.parser
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import nbformat

from autograder.grades.results import Kind

RIGHT = {
    "add": "def add(a, b):\n    return b + a",
    "twice": "def twice(a):\n    return a + a",
    "proof": "Swap them; nothing changes.",
}
WRONG = {"add": "def add(a, b):\n    return a - b", "twice": "def twice(a):\n    return 3 * a"}

# The given cells as they were released.
AS_GIVEN = (
    'def {name}({arguments}):\n    """Return {what}."""\n    # YOUR CODE HERE\n    raise '
    "NotImplementedError()"
)
LEFT = {
    "add": AS_GIVEN.format(name="add", arguments="a, b", what="a + b"),
    "twice": AS_GIVEN.format(name="twice", arguments="a", what="2 a"),
}

# Answers that are worth nothing at all, where WRONG's `add` is worth a point for its shape.
ZERO = {"add": "def add(a, b):\n    return 0", "twice": "def twice(a):\n    return 0"}

ALL = {"check_add": 4, "check_twice": 2}
ADD = {"check_add": 4, "check_twice": 0}
TWICE = {"check_add": 0, "check_twice": 2}
SHAPE = {"check_add": 1, "check_twice": 0}
NONE = {"check_add": 0, "check_twice": 0}

NEIGHBOUR = "zoe-next-door"
WORK = "ANOTHER-STUDENTS-WORK"
TOKEN = "THE-TOKEN-OF-THE-GRADER"
SOLUTION = "Because addition commutes"
REACHED = "REACHED-THE-NETWORK"

# In every script, handler and address of the cases that show markup: live, it would run, or be
# fetched, in the browser of a person who reads the page.
LIVE = "hostile_mark"


@dataclass
class Case:
    """One submission.

    Attributes
    ----------
    name : str
        Short, fit for a folder: lower case, digits and hyphens.
    does : str
        What it does, in a few words, for people who read the case.
    points : dict
        The points that its check cells are worth: {"check_add": of 4, "check_twice": of 2}.
    kind : Kind
    says : str
        Words that its reason must contain.
    cells : dict
        The text of solution cells, by grade id; those not named are right.
    edit : callable, optional
        `edit(notebook, folder)` changes the notebook before it is written to `folder`, or writes
        other files there. If it returns False, the notebook is not written at all.
    secret : str
        Where the submission tries to show something of the course's: words that no feedback may
        contain.
    may : Kind, optional
        Another kind that is as true, where it depends on the machine which of two things happens
        first.
    student : str
        The name of its student's folder on disk, as `os.fsdecode` gives it; the case's own name
        where there is none.
    shown : str
        The name under which that student is graded, where it is not the case's own.
    root_reads : bool
        Whether it is an obstacle for an ordinary user alone: graded by root it is right, and gets
        all points.
    """

    name: str
    does: str
    points: dict
    kind: Kind
    says: str = ""
    cells: dict = field(default_factory=dict)
    edit: Callable | None = None
    secret: str = ""
    may: Kind | None = None
    student: str = ""
    shown: str = ""
    root_reads: bool = False

    @property
    def graded_as(self):
        """The student's name in the gradebook."""
        return self.shown or self.name

    def write(self, released, submitted):
        """Write this submission, made from the `released` notebook, below the folder
        `submitted`.
        """
        folder = submitted / (self.student or self.name) / "01-toy"
        folder.mkdir(parents=True)
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = {**RIGHT, **self.cells}.get(grade_id, cell.source)
        if self.edit is None or self.edit(notebook, folder) is not False:
            save(notebook, folder)
        return folder


def save(notebook, folder, name="01-toy.ipynb"):
    """Write a notebook as it is: nbformat's own writer would mend some of what is wrong with it."""
    (folder / name).write_text(json.dumps(notebook, indent=1))


def code(text):
    """Return the text of a cell, written indented in this source."""
    return textwrap.dedent(text).strip()


def find(notebook, grade_id):
    """Return the place of a cell, by its grade id."""
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    return ids.index(grade_id)


def extra(text, before=None, kind="code"):
    """Return an edit that adds a cell of the student's own, before the cell `before` or at the
    end.
    """

    def edit(notebook, folder):
        cell = getattr(nbformat.v4, f"new_{kind}_cell")(code(text))
        notebook.cells.insert(
            len(notebook.cells) if before is None else find(notebook, before), cell
        )

    return edit


def files(texts):
    """Return an edit that writes files beside the notebook: their names, and what stands in
    them.
    """

    def edit(notebook, folder):
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code(text))

    return edit


# Attributes whose address a browser fetches by itself, and tags on which it does so for `href`.
FETCHED = ("src", "srcset", "background", "poster", "data", "action", "formaction", "xlink:href")
FETCHING = ("link", "base", "image", "use", "script")
LAID_OVER = ("position:", "margin:-", "navbar-fixed", "modal")


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.inside, self.found = "", []

    def handle_starttag(self, tag, attributes):
        self.inside = tag if tag in ("script", "style") else ""
        marked = any(value and LIVE in value for _, value in attributes)
        for name, value in attributes if marked else ():
            address = "".join(letter for letter in (value or "").lower() if letter > " ")
            runs = (
                name.startswith("on")
                or name == "srcdoc"
                or tag in ("iframe", "embed", "object", "script", "base")
            )
            runs = (runs and LIVE in address) or address.startswith(
                ("javascript:", "data:text", "vbscript:")
            )
            fetched = name in FETCHED or (name == "href" and tag in FETCHING)
            fetched = LIVE in address and fetched and not address.startswith("data:image/")
            styled = name == "style" and (LIVE in address or "\\" in address)
            over = name in ("style", "class") and any(word in address for word in LAID_OVER)
            if runs or fetched or styled or over:
                self.found.append(f"<{tag} {name}>")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside and LIVE in data:
            self.found.append(f"<{self.inside}>")


def live(page):
    """Return what of a submission's own would run, be fetched, or lie over the page: names of tags
    and attributes.

    It sees only what bears the mark: the word `LIVE` in an attribute of the same tag, or inside a
    script or a style.
    """
    parser = _Page()
    parser.feed(page)
    parser.close()
    return parser.found

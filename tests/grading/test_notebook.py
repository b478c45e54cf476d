"""From the bytes of a file to the notebook to grade: it is read as data, and put into the one
that was given out.
"""

import copy
import json
from types import SimpleNamespace

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbgrader.utils import compute_checksum

from autograder.course.cells import grade_id, last_graded
from autograder.grading import file_kinds, notebook, own_cells
from autograder.grading.notebook import Malformed, parse, restore

ANSWER = {"grade": False, "solution": True, "locked": False}
CHECK = {"grade": True, "solution": False, "locked": True, "points": 4}
GIVEN = "def add(a, b):\n    raise NotImplementedError()"


def cell(kind, text, name, **marks):
    new = getattr(nbformat.v4, f"new_{kind}_cell")(text, id=name)
    if marks:
        new.metadata.nbgrader = {"grade_id": name, "schema_version": 3, "task": False, **marks}
    return new


def make_released():
    """Return a released notebook: a text, an answer and its check, a second answer, and one that
    is written.
    """
    cells = [
        cell("markdown", "# Toy", "head"),
        cell("code", GIVEN, "add", **ANSWER),
        cell("code", "import checks\n\nchecks.run('add', points=4)", "check_add", **CHECK),
        cell("code", "def twice(a):\n    raise NotImplementedError()", "twice", **ANSWER),
        cell("code", "checks.run('twice', points=2)", "check_twice", **{**CHECK, "points": 2}),
        cell("markdown", "YOUR ANSWER", "proof", grade=True, solution=True, locked=False, points=3),
    ]
    return nbformat.v4.new_notebook(cells=cells)


RELEASED = make_released()
PLACE = {each.id: index for index, each in enumerate(RELEASED.cells)}


def restored(change):
    """Return what comes of the released notebook as JSON once `change` was at it: cells by id,
    and the whole.
    """
    raw = json.loads(json.dumps(RELEASED))
    raw = change(raw) or raw
    result = restore(parse(json.dumps(raw).encode(), "01-toy.ipynb"), RELEASED)
    return {each.id: each for each in result.notebook.cells}, result


def notes_of(result):
    return " ".join(str(line) for line in result.repairs)


def problem(data):
    with pytest.raises(Malformed) as error:
        parse(data, "01-toy.ipynb")
    assert str(error.value) == str(error.value.message)
    return str(error.value)


# Reading.


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "01-toy.ipynb is empty."),
        (b"\xff{}", "01-toy.ipynb is not UTF-8 text."),
        (b"{\n\nx", "01-toy.ipynb is not a notebook: it is not valid JSON, line 3."),
        (b"[" * 100_000, "01-toy.ipynb is not a notebook: it is not valid JSON."),
        (
            b'{"nbformat": 4, "cells": [1' + b"0" * 5000 + b"]}",
            "01-toy.ipynb is not a notebook: it is not valid JSON.",
        ),
        (b"[1]", "01-toy.ipynb is JSON but not a notebook"),
        (b"null", "01-toy.ipynb is JSON but not a notebook"),
        (b'{"nbformat": 4}', "01-toy.ipynb is JSON but not a notebook (KeyError"),
        (b'{"nbformat": 4, "cells": {}}', "its cells are not a list"),
        (b'{"nbformat": 4, "cells": [7]}', "01-toy.ipynb is JSON but not a notebook (TypeError"),
        (b'{"nbformat": 4, "cells": [{"source": 7}]}', "a cell without text"),
        (
            b'{"nbformat": 4, "cells": [{"source": [7]}]}',
            "01-toy.ipynb is JSON but not a notebook (TypeError",
        ),
        (b'{"nbformat": 99, "cells": []}', "01-toy.ipynb is JSON but not a notebook"),
        (b'{"nbformat": "4", "cells": []}', "01-toy.ipynb is JSON but not a notebook"),
    ],
    ids=range(14),
)
def test_a_file_that_is_no_notebook_is_reported(data, says):
    assert says in problem(data)


TEXT = json.dumps(RELEASED, indent=1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            TEXT.replace("Toy", "Töy").encode("latin-1"),
            "saved in another encoding, such as Latin-1. Open it in an",
        ),
        (TEXT.replace("Toy", "玩具").encode("gbk"), "saved in another encoding"),
        (
            b"PK\x03\x04\xff\xfe",
            "is a zip archive, not a notebook. Unpack it, and submit the notebook",
        ),
        (b"PK\x03\x04 all of it ASCII", "is a zip archive"),
        (b"\x1f\x8b\x08\xff", "is a gzip archive, not a notebook. Submit the notebook itself"),
        (b"%PDF-1.5\n%\xd0\xd4", "is a PDF file, not a notebook."),
        (b"%PDF-1.5\n", "is a PDF file, not a notebook."),
        (
            b"\n <!DOCTYPE html>\n<html>",
            "is a web page (HTML), not the notebook. Save the notebook itself from",
        ),
        (b"\xef\xbb\xbf<html>", "is a web page (HTML)"),
        (
            TEXT.replace(' "cells"', '<<<<<<< HEAD\n "cells"').encode(),
            "Git's merge conflict markers, the first in line 5: `<<<<<<<`. Keep one side",
        ),
        (
            TEXT.replace(' "cells"', '  <<<<<<< HEAD\r\n "cells"').encode(),
            "first in line 5: `<<<<<<<`.",
        ),
        (TEXT.replace(' "cells"', '=======\r\n "cells"').encode(), "first in line 5: `=======`."),
        (
            TEXT.replace(' "cells"', '>>>>>>> theirs\n "cells"').encode(),
            "first in line 5: `>>>>>>>`.",
        ),
        (
            f"<<<<<<< HEAD\n{TEXT}=======\n{TEXT}>>>>>>> theirs\n".encode(),
            "first in line 1: `<<<<<<<`.",
        ),
        (TEXT[: len(TEXT) // 2].encode("utf-16"), "it is not valid JSON, line"),
        (TEXT.encode("utf-16")[:-1], "is not UTF-8 text."),
    ],
    ids=range(16),
)
def test_the_kind_of_a_wrong_file_and_a_fix_are_reported(data, says):
    assert problem(data).startswith("01-toy.ipynb ") and says in problem(data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_notebook_in_another_unicode_encoding_is_read_with_a_note(encoding):
    data = TEXT.replace("Toy", "Töy 玩具").encode(encoding)
    assert parse(data, "x").cells[0].source == "# Töy 玩具"
    (note,) = file_kinds.encoding_notes(data, "x.ipynb")
    assert str(
        note
    ) == f"x.ipynb is saved as {encoding[:6].upper()}; it was read all the same. " + (
        "A notebook should be UTF-8."
    )
    assert not file_kinds.encoding_notes(
        TEXT.encode("utf-8-sig"), "x"
    ) and not file_kinds.encoding_notes(None, "x")


def test_the_other_mark_of_a_half_line_is_no_conflict():
    assert "merge" not in problem(b'{"cells": "<<<<<<< HEAD\n", x}') and "merge" not in problem(
        b"def f():\n<<<<<<< x"
    )


# Whose notebook it is.


def notebook_with(*ids, names=()):
    cells = [
        cell("code", f"checks.run('{name}', points=1)", f"check_{name}", **CHECK) for name in names
    ]
    return json.dumps(
        nbformat.v4.new_notebook(cells=[cell("code", "x", name, **ANSWER) for name in ids] + cells)
    )


KNOWN = {
    "01-a": file_kinds.features(
        notebook_with("given", "add", "twice", names=["add", "twice"]).encode()
    ),
    "02-b": file_kinds.features(
        notebook_with("given", "scale", "mean", names=["scale", "mean"]).encode()
    ),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_notebook_of_another_exercise_is_known_by_its_cells(encoding):
    theirs = notebook_with("given", "scale", "mean", names=["scale", "mean"])
    assert file_kinds.identify_exercise(theirs.encode(encoding), KNOWN, "01-a") == "02-b"
    assert file_kinds.identify_exercise(theirs.encode(encoding), KNOWN) == "02-b"
    bare = theirs.replace('"id"', '"lost"').replace('"grade_id"', '"lost"')
    assert file_kinds.identify_exercise(bare.encode(encoding), KNOWN, "01-a") == "02-b"


@pytest.mark.parametrize(
    "data",
    [
        notebook_with("given", "add", "twice", names=["add", "twice"]),
        # with all of another one in it
        notebook_with("given", "add", "scale", "mean", names=["scale", "mean"]),
        notebook_with("given", "scale"),
        notebook_with("given"),
        notebook_with(),
        "no notebook",
        notebook_with("mine", names=["scale"]),
    ],
    ids=range(7),
)
def test_in_doubt_a_notebook_is_what_it_is_called(data):
    assert file_kinds.identify_exercise(data.encode(), KNOWN, "01-a") == "01-a"
    assert file_kinds.identify_exercise(data.encode(), {}, "01-a") == "01-a"


def test_a_text_that_only_quotes_an_id_is_none():
    data = json.dumps({"source": '{"grade_id": "scale", "id": "mean"}'}).encode()
    assert file_kinds.features(data) == (frozenset(), frozenset())


def test_too_many_cells_are_malformed_with_a_sentence():
    raw = {
        "nbformat": 4,
        "cells": [{"cell_type": "code", "source": "x"}] * (notebook.MOST_CELLS + 1),
    }
    assert problem(json.dumps(raw).encode()) == "01-toy.ipynb has 2001 cells; the maximum is 2000."
    raw["cells"].pop()
    assert len(parse(json.dumps(raw).encode(), "x").cells) == notebook.MOST_CELLS


def test_a_restored_cell_keeps_only_the_answer():
    raw = {
        "cell_type": "markdown",
        "source": ["a", "\ud800b"],
        "id": "mine",
        "metadata": {"nbgrader": {"grade_id": "add"}, "tags": ["skip-execution"], "odd": "\ud800"},
        "attachments": {"a.png": {}},
        "outputs": [{"evil": 1}],
    }
    (read,) = parse(json.dumps({"nbformat": 4, "cells": [raw]}).encode(), "x").cells
    assert read == {
        "cell_type": "markdown",
        "source": "a?b",
        "id": "mine",
        "metadata": {"nbgrader": {"grade_id": "add"}},
        "attachments": {"a.png": {}},
    }


def test_a_notebook_of_format_3_is_read():
    old = nbformat.v3.writes_json(nbformat.convert(make_released(), 3)).encode()
    assert [each.source for each in parse(old, "x").cells] == [
        each.source for each in RELEASED.cells
    ]


def test_a_byte_order_mark_is_no_fault():
    assert parse(b"\xef\xbb\xbf" + json.dumps(RELEASED).encode(), "x").cells


# Putting back.


def test_what_is_as_it_was_needs_no_repair():
    _, result = restored(lambda raw: None)
    assert result.notebook.cells == RELEASED.cells and not result.repairs and not result.evidence


def test_answers_are_the_students_and_all_else_is_ours():
    def change(raw):
        raw["cells"][PLACE["add"]]["source"] = "def add(a, b):\n    return a + b"
        raw["cells"][PLACE["add"]]["metadata"]["nbgrader"].update(points=500, grade=True)
        raw["cells"][PLACE["head"]]["source"] = "# My toy"
        raw["metadata"] = {"kernelspec": {"name": "evil"}}

    cells, result = restored(change)
    assert cells["add"].source.endswith("a + b") and cells["head"].source == "# My toy"
    assert cells["add"].metadata == RELEASED.cells[PLACE["add"]].metadata and not result.repairs
    assert result.notebook.metadata == RELEASED.metadata


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda check: check.update(source="4.0"), ["-checks.run('add', points=4)", "+4.0"]),
        (
            lambda check: check["metadata"]["nbgrader"].update(points=500),
            ["-points: 4", "+points: 500"],
        ),
        (lambda check: check["metadata"]["nbgrader"].update(solution=True), ["+solution: True"]),
        (
            lambda check: check["metadata"]["nbgrader"].update(grade="\ud800\x1b[2J"),
            ["+grade: ?\ufffd[2J"],
        ),
        (
            lambda check: check["metadata"]["nbgrader"].update(points="9" * 100_000),
            ["+points: " + "9" * 200 + " …"],
        ),
        (
            lambda check: check.update(source="\x1b]0;x\x07\u202e\ud800"),
            ["+\ufffd]0;x\ufffd\ufffd?"],
        ),
    ],
    ids=["source", "points", "flag", "half a letter", "long", "acts"],
)
def test_an_altered_locked_cell_is_put_back_and_shown(change, shown):
    cells, result = restored(lambda raw: change(raw["cells"][PLACE["check_add"]]))
    assert cells["check_add"] == RELEASED.cells[PLACE["check_add"]]
    assert "The locked cell check_add had been changed and has been restored." in notes_of(result)
    (evidence,) = result.evidence
    assert evidence.startswith("check_add:\n") and all(
        line in evidence.splitlines() for line in shown
    ), evidence
    assert len(evidence) < 30_000 and evidence.replace("\n", "").isprintable()


def given_out(each):
    """Return a cell as nbgrader gives it out, with its checksum."""
    each.metadata.nbgrader["checksum"] = compute_checksum(each)
    return each


@pytest.mark.parametrize("lines", ["\n", "\r\n"])
def test_a_locked_cell_of_another_release_is_no_attack(lines):
    older = given_out(
        cell(
            "code",
            "import checks\nchecks.run('add', points=5)",
            "check_add",
            **{**CHECK, "points": 5},
        )
    )
    older.source = older.source.replace("\n", lines)
    cells, result = restored(lambda raw: raw["cells"].__setitem__(PLACE["check_add"], older))
    assert cells["check_add"] == RELEASED.cells[PLACE["check_add"]] and not result.evidence
    assert notes_of(result) == (
        "The cell check_add comes from another release of this notebook; it was replaced by the "
        "current one."
    )
    older.source += "  # 5"
    assert restored(lambda raw: raw["cells"].__setitem__(PLACE["check_add"], older))[1].evidence


def test_a_released_check_marked_as_a_solution_is_still_an_attack():
    forged = given_out(cell("code", "4.0", "check_add", **{**CHECK, "solution": True}))
    assert restored(lambda raw: raw["cells"].__setitem__(PLACE["check_add"], forged))[1].evidence


@pytest.mark.parametrize("change", ["altered", "deleted"])
def test_a_text_of_another_release_is_put_back_and_is_no_attack(change):
    released = make_released()
    released.cells[0] = cell(
        "markdown", "Add two integers.", "head", grade=False, solution=False, locked=True
    )
    raw = json.loads(json.dumps(RELEASED))
    raw["cells"][0] = json.loads(
        json.dumps(
            cell("markdown", "Add two numbers.", "head", grade=False, solution=False, locked=True)
        )
    )
    if change == "deleted":
        del raw["cells"][0]
    result = restore(parse(json.dumps(raw).encode(), "01-toy.ipynb"), released)
    assert result.notebook.cells[0] == released.cells[0] and not result.evidence
    assert notes_of(result).startswith(
        "The text head was changed or missing"
    ) and "restored." in notes_of(result)


def test_a_locked_cell_may_be_reformatted():
    text = "import checks\n\n\nchecks.run('add',\n           points = 4)  # four\n"
    _, result = restored(lambda raw: raw["cells"][PLACE["check_add"]].update(source=text))
    assert not result.repairs and not result.evidence


def test_a_deleted_check_is_restored_and_a_deleted_answer_is_empty():
    def change(raw):
        raw["cells"] = [each for each in raw["cells"] if each["id"] not in ("add", "check_add")]

    cells, result = restored(change)
    assert list(cells) == list(PLACE) and cells["check_add"] == RELEASED.cells[PLACE["check_add"]]
    assert cells["add"].source == "" and not result.evidence
    assert notes_of(result) == "These cells were missing and have been restored: add, check_add."


def test_equal_repairs_are_reported_once():
    def change(raw):
        for name in ("check_add", "check_twice", "head"):
            raw["cells"][PLACE[name]]["source"] = "100"
        del raw["cells"][PLACE["add"]]

    _, result = restored(change)
    assert [str(line) for line in result.repairs] == [
        "The cell add was missing and has been restored.",
        "These locked cells had been changed and have been restored: check_add, check_twice.",
    ]
    assert len(result.evidence) == 2


def test_a_copied_check_counts_once_and_a_copied_answer_runs_where_it_stands():
    def change(raw):
        for name, text in (("check_add", None), ("add", "def add(a, b):\n    return 7")):
            again = copy.deepcopy(raw["cells"][PLACE[name]])
            again["source"] = text or again["source"]
            raw["cells"].append({**again, "id": f"{name}-again"})

    cells, result = restored(change)
    assert list(cells)[:-1] == list(PLACE)
    assert notes_of(result).startswith("The cell check_add appears twice; the first one counts.")
    last = result.notebook.cells[-1]
    assert last.source.endswith("return 7") and not last.metadata


def test_added_cells_keep_their_position_and_lose_their_metadata():
    def change(raw):
        added = {
            "cell_type": "code",
            "source": "helper = 1",
            "id": "x",
            "metadata": {"nbgrader": {"grade_id": "no"}},
        }
        raw["cells"].insert(2, added)
        raw["cells"].insert(0, {"cell_type": "odd", "source": "raw", "metadata": None})
        raw["cells"].append(
            {
                "cell_type": "markdown",
                "source": "done",
                "attachments": {"a.png": {"image/png": "x"}},
            }
        )

    _, result = restored(change)
    kinds = [(each.cell_type, each.source) for each in result.notebook.cells]
    assert (
        kinds[0] == ("raw", "raw")
        and kinds[3] == ("code", "helper = 1")
        and kinds[-1] == ("markdown", "done")
    )
    added = [each for each in result.notebook.cells if each.id not in PLACE]
    assert all(each.metadata == {} for each in added) and added[-1].attachments == {
        "a.png": {"image/png": "x"}
    }
    assert len({each.id for each in result.notebook.cells}) == len(result.notebook.cells)
    assert not result.repairs


def test_an_id_that_is_already_ours_is_no_reason_to_stop():
    released = make_released()
    for index, each in enumerate(released.cells):
        each.id = f"own-{index}"
    submitted = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(f"x = {n}") for n in range(5)]
    )
    result = restore(parse(json.dumps(submitted).encode(), "x"), released)
    assert len({each.id for each in result.notebook.cells}) == len(result.notebook.cells) == 11


# Finding cells again.


def without_marks(raw, ids=True):
    for each in raw["cells"]:
        each["metadata"] = {}
        if ids:
            del each["id"]


def answered(raw, **texts):
    for name, text in texts.items():
        raw["cells"][PLACE[name]]["source"] = text


@pytest.mark.parametrize("ids", [False, True], ids=["by cell id", "by text and place"])
def test_cells_without_marks_are_found(ids):
    def change(raw):
        answered(raw, add="def add(a, b):\n    return a + b", proof="Because.")
        without_marks(raw, ids)

    cells, result = restored(change)
    assert list(cells) == list(PLACE) and not result.repairs
    assert cells["add"].source.endswith("a + b") and cells["proof"].source == "Because."


def test_a_cell_is_found_by_its_text_wherever_it_stands():
    def change(raw):
        without_marks(raw)
        raw["cells"].reverse()

    cells, result = restored(change)
    assert list(cells) == list(PLACE) and not result.repairs


def test_an_added_cell_is_not_taken_for_an_answer():
    def change(raw):
        without_marks(raw)
        raw["cells"][PLACE["add"]]["source"] = "x = 1"  # defines no add

    cells, result = restored(change)
    assert cells["add"].source == "" and "The cell add was missing" in notes_of(result)
    assert "x = 1" in [each.source for each in result.notebook.cells]


def test_an_added_cell_for_a_check_is_no_change_of_it():
    def change(raw):
        without_marks(raw)
        raw["cells"][PLACE["check_add"]]["source"] = "print(add(1, 2))"

    cells, result = restored(change)
    assert cells["check_add"] == RELEASED.cells[PLACE["check_add"]] and not result.evidence
    assert notes_of(result) == "The cell check_add was missing and has been restored."
    assert "print(add(1, 2))" in [each.source for each in result.notebook.cells]


def test_the_mark_of_one_cell_on_another_counts_by_its_grade_id():
    def change(raw):
        add, twice = raw["cells"][PLACE["add"]], raw["cells"][PLACE["twice"]]
        add["id"], twice["id"] = twice["id"], add["id"]

    cells, _ = restored(change)
    assert "def add" in cells["add"].source and "def twice" in cells["twice"].source


# Pictures.


def test_attachments_are_copied_in_answers_and_added_texts_only():
    picture = {"a.png": {"image/png": "aGk="}}

    def change(raw):
        for each in raw["cells"]:
            each["attachments"] = picture

    cells, result = restored(change)
    assert cells["proof"].attachments == picture and cells["head"].attachments == picture
    assert not any(
        "attachments" in cells[name] for name in ("add", "check_add", "twice", "check_twice")
    )
    assert not result.evidence


# Answers that stand elsewhere.


def test_what_a_student_may_have_written_is_not_as_released():
    everything = {each.id for each in RELEASED.cells}
    assert restored(lambda raw: None)[1].as_released == everything

    def change(raw):
        for name, text in (
            ("head", "# Mine"),
            ("add", "add = sum"),
            ("check_add", "checks.forged"),
            ("proof", "It is so."),
        ):
            raw["cells"][PLACE[name]]["source"] = text
        raw["cells"].append(
            {"cell_type": "markdown", "source": "# Toy", "metadata": {}, "id": "mine"}
        )

    assert restored(change)[1].as_released == everything - {"head", "add", "proof"}

    def attach(raw):
        raw["cells"][PLACE["proof"]]["attachments"] = {"proof.png": {"image/png": "aGVsbG8="}}

    assert restored(attach)[1].as_released == everything - {"proof"}


WRITTEN = {
    "add": "def add(a, b):\n    return a + b",
    "twice": "def twice(a):\n    return add(a, a)",
}
COUNTED = (
    "These answers are in added cells, and the cells provided for them are empty or unchanged: {}. "
    "They count in every check."
)


def own_cell(source):
    return {"cell_type": "code", "source": source}


def ran(result):
    """Return what the checks of `add` and `twice` see when the cells run from the top."""
    names, seen = {}, {}
    for each in result.notebook.cells:
        if each.id.startswith("check_"):
            function = names.get(each.id.removeprefix("check_"))
            try:
                seen[each.id] = function(2, 3) if each.id == "check_add" else function(4)
            except Exception as error:
                seen[each.id] = type(error).__name__
        elif each.cell_type == "code":
            exec(each.source, names)
    return seen


@pytest.mark.parametrize("message_count", ["", GIVEN, "  \n"], ids=["empty", "as given", "blank"])
@pytest.mark.parametrize("where", [0, 100], ids=["at the top", "at the end"])
def test_answers_in_an_added_cell_count_and_are_reported_once(message_count, where):
    def change(raw):
        answered(raw, add=message_count)
        raw["cells"].insert(where, own_cell("import math\n\n" + "\n\n\n".join(WRITTEN.values())))

    _, result = restored(change)
    assert ran(result) == {"check_add": 5, "check_twice": 8}
    assert notes_of(result) == COUNTED.format("add, twice")


@pytest.mark.parametrize("where", [0, 100], ids=["at the top", "at the end"])
def test_helpers_of_a_moved_answer_are_copied_and_nothing_else(where):
    def change(raw):
        cells = [
            own_cell(
                "%matplotlib inline\nfrom math import *\nimport operator as op\nONE, TWO = 1, "
                "2\nshown = add"
            ),
            own_cell("def plus(a, b):\n    return op.add(a, b) * ONE"),
            own_cell("raised = 1 / 0" if where else "x = 1"),
            own_cell("@staticmethod\ndef add(a, b):\n    return plus(a, b)\n\nprint(add(1, 2))"),
        ]
        if not where:
            cells[0] = own_cell("import operator as op\nONE = 1")
        raw["cells"][where:where] = cells

    cells, result = restored(change)
    if where:
        assert cells["add"].source == (
            "from math import *\n\nimport operator as op\n\nONE, TWO = 1, 2\n\n"
            "def plus(a, b):\n    return op.add(a, b) * ONE\n\n@staticmethod\ndef add(a, b):\n    "
            "return plus(a, b)"
        )
        assert "add" not in result.as_released
    else:
        assert ran(result)["check_add"] == 5
    assert notes_of(result) == COUNTED.format("add")


def test_of_several_definitions_below_the_last_counts_and_one_before_the_check_goes_first():
    wrong = "def add(a, b):\n    return 7"

    def below(raw):
        raw["cells"] += [own_cell(wrong), own_cell(WRITTEN["add"])]

    assert ran(restored(below)[1])["check_add"] == 5

    def between(raw):
        raw["cells"].insert(PLACE["check_add"], own_cell(WRITTEN["add"]))
        raw["cells"].append(own_cell(wrong))

    result = restored(between)[1]
    assert ran(result)["check_add"] == 5 and not result.repairs
    assert result.notebook.cells[PLACE["add"]].source == GIVEN


def test_an_answer_in_the_cell_of_another_counts():
    def change(raw):
        answered(raw, add="\n\n\n".join(WRITTEN.values()))

    assert ran(restored(change)[1]) == {"check_add": 5, "check_twice": 8}

    def last(raw):
        answered(raw, twice="\n\n\n".join(WRITTEN.values()))

    cells, result = restored(last)
    assert (
        ran(result) == {"check_add": 5, "check_twice": 8} and cells["add"].source == WRITTEN["add"]
    )


@pytest.mark.parametrize(
    "line",
    [
        "from mine import *",
        "from mine import add, twice",
        "import mine as own, mine\nadd = mine.add",
    ],
)
def test_answers_of_a_file_beside_the_notebook_count(line):
    raw = json.loads(json.dumps(RELEASED))
    raw["cells"].insert(0, own_cell(line))
    data = "\n".join(WRITTEN.values()).encode()
    result = restore(parse(json.dumps(raw).encode(), "x"), RELEASED, {"mine.py": data})
    assert "raise" not in result.notebook.cells[PLACE["add"] + 1].source and "add" in notes_of(
        result
    )
    assert not restore(parse(json.dumps(raw).encode(), "x"), RELEASED, {"other.py": data}).repairs
    assert not restore(
        parse(json.dumps(raw).encode(), "x"), RELEASED, {"mine.py": b"\xff("}
    ).repairs


@pytest.mark.parametrize(
    "source", ["from numpy import add", "add = [1]", "add = print(3)", "if 1:\n    def add(a): ..."]
)
def test_what_only_has_an_answers_name_is_none(source):
    assert not restored(lambda raw: raw["cells"].insert(0, own_cell(source)))[1].repairs


def test_statements_that_use_one_another_are_looked_at_once():
    lines = "\n".join(["a = b = c = a + b + c"] * 6_000)
    _, result = restored(
        lambda raw: raw["cells"].append(own_cell(f"{lines}\ndef add(d, e):\n    return a + b + c"))
    )
    assert notes_of(result) == COUNTED.format("add")
    nested = "".join("    " * depth + "if x:\n" for depth in range(90)) + "    " * 90 + "y = 1"
    _, result = restored(
        lambda raw: raw["cells"].append(own_cell(f"{nested}\ndef add(a, b):\n    return y"))
    )
    assert notes_of(result) == COUNTED.format("add")


# Characters that Python does not take.


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "def add(a, b):\n\u00a0\u00a0\u00a0\u00a0return a + b",
            "no-break space (U+00A0) in line 2 of the cell add: retype it as a plain space.",
        ),
        ("def add(a, b):\n    c = a\n   \u00a0return c + b", "no-break space (U+00A0) in line 3"),
        ("def add(a, b):\n    return a +\u2009b", "thin space (U+2009) in line 2"),
        ("def add(a, b):\n    return a +\u3000b", "ideographic space (U+3000)"),
        ("def add(a, b):\u2003\n    return a + b", "em space (U+2003) in line 1"),
        (
            "def add(a, b):\n    return a\u200b + b",
            "zero width space (U+200B) in line 2 of the cell add: delete",
        ),
        (
            "def add(a, b)：\n    return a + b",
            "fullwidth colon (U+FF1A) in line 1 of the cell add: retype it as :",
        ),
        ("def add（a, b):\n    return a + b", "fullwidth left parenthesis (U+FF08)"),
        ("def add(a， b):\n    return a + b", "fullwidth comma (U+FF0C)"),
        (
            "x = \u201ctext\u201d\ndef add(a, b):\n    return a + b",
            'left double quotation mark (U+201C) in line 1 of the cell add: retype it as "',
        ),
        ("x = \u2018text\u2019", "left single quotation mark (U+2018)"),
        (
            "def add(a, b):\n    return a \u2212 b",
            "minus sign (U+2212) in line 2 of the cell add: retype it as -",
        ),
        ("%%time\ndef add(a, b):\n    return a \u2013 b", "en dash (U+2013) in line 3"),
        ("!pip list\ndef add(a, b):\n    return a \u00d7 b", "multiplication sign (U+00D7)"),
        (
            "<<<<<<< HEAD\ndef add(a, b):\n    return a\n=======\n>>>>>>> theirs",
            "There is a merge conflict marker in line 1 of the cell add: keep",
        ),
    ],
)
def test_a_character_that_python_does_not_take_is_named_once(source, says):
    cells, result = restored(lambda raw: answered(raw, add=source))
    (line,) = result.repairs
    assert (
        says in str(line)
        and cells["add"].source == source
        and str(line).isascii()
        and not result.evidence
    )


@pytest.mark.parametrize(
    "source",
    [
        '"""A no-break\u00a0space, \u201cquoted\u201d：yes."""\nx = "\u3000"  # \u2212',
        "%%bash\necho \u201chello\u201d",
        "größe = 1\nß = 2",
        "def add(a, b) return a + ö",
        "x = '<<<<<<< HEAD'\n",
        '"""\n<<<<<<< HEAD\n"""',
    ],
)
def test_what_python_takes_or_stumbles_over_for_another_reason_is_not_named(source):
    assert not restored(lambda raw: answered(raw, add=source))[1].repairs


def test_the_same_character_in_several_cells_is_one_line():
    odd = "x =\u00a01"
    _, result = restored(lambda raw: answered(raw, add=odd, twice=f"\n{odd}"))
    (line,) = map(str, result.repairs)
    assert " in line 1 of the cell add, line 2 of the cell twice: retype" in line


@pytest.mark.parametrize(
    "source",
    [
        "plus = 1",
        "# def add",
        "def add(a, b",
        "'''def add(a, b): pass'''",
        "x" * 50_000,
        "(" * 5000,
    ],
)
def test_nothing_is_reported_where_no_added_cell_defines_it(source):
    def change(raw):
        answered(raw, add="")
        raw["cells"].append({"cell_type": "code", "source": source})

    assert not restored(change)[1].repairs


@pytest.mark.parametrize(
    "where",
    ["locked", "added"],
    ids=["in place of a check", "in cells of its own, each with a word that is looked for"],
)
def test_a_bounded_part_of_what_was_handed_in_is_read_as_python(monkeypatch, where):
    read, parse_python = [], notebook.ast.parse

    def counted(source):
        read.append(len(source))
        return parse_python(source)

    monkeypatch.setattr(notebook.ast, "parse", counted)

    def change(raw):
        answered(raw, add="")
        large = "add = [" + "1, " * 60_000 + "]\n"
        if where == "locked":
            raw["cells"][PLACE["check_add"]]["source"] = large * 7
        else:
            cells = [
                {"cell_type": "code", "source": f"# {number}\n{large}"} for number in range(20)
            ]
            raw["cells"] += [
                *cells,
                {"cell_type": "code", "source": "def add(a, b):\n    return a + b"},
            ]

    _, result = restored(change)
    assert sum(read) < 1.1 * own_cells.MOST_CODE
    if where == "locked":
        assert result.evidence
    else:
        assert notes_of(result) == COUNTED.format("add")


def test_a_helper_in_an_added_cell_is_not_reported():
    def change(raw):
        answered(raw, add="def add(a, b):\n    return helper(a, b)")
        raw["cells"].insert(1, {"cell_type": "code", "source": "def helper(a, b):\n    return add"})

    assert not restored(change)[1].repairs


# Anything at all.

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=5),
)
NAMES = st.sampled_from([*PLACE, "grade_id", "nbgrader", "points", "x", ""])
VALUES = st.recursive(
    st.one_of(SCALARS, NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
MARKS = st.fixed_dictionaries(
    {},
    optional={
        "grade_id": st.one_of(NAMES, VALUES),
        "points": VALUES,
        "grade": VALUES,
        "solution": VALUES,
        "locked": VALUES,
    },
)
SOURCES = st.one_of(
    st.sampled_from([each.source for each in RELEASED.cells]),
    st.text(max_size=10),
    st.lists(st.text(max_size=3)),
    VALUES,
)
CELLS = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.one_of(st.sampled_from(["code", "markdown", "raw"]), VALUES),
        "source": SOURCES,
        "id": st.one_of(NAMES, VALUES),
        "metadata": st.one_of(
            st.fixed_dictionaries({}, optional={"nbgrader": st.one_of(MARKS, VALUES)}), VALUES
        ),
        "attachments": VALUES,
        "outputs": VALUES,
        "input": SOURCES,
    },
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "nbformat": st.one_of(st.sampled_from([1, 2, 3, 4, 5, "4"]), VALUES),
        "nbformat_minor": VALUES,
        "metadata": VALUES,
        "cells": st.one_of(st.lists(st.one_of(CELLS, VALUES), max_size=6), VALUES),
        "worksheets": st.one_of(
            st.lists(st.fixed_dictionaries({"cells": st.lists(CELLS, max_size=3)}), max_size=2),
            VALUES,
        ),
    },
)
GOOD = st.fixed_dictionaries({"nbformat": st.just(4), "cells": st.lists(CELLS, max_size=8)})


def ends_well(data):
    """Take these bytes through; what comes out is `Malformed`, or a notebook with all of ours in
    it.
    """
    try:
        submitted = parse(data, "01-toy.ipynb")
    except Malformed as error:
        str(error.message).encode()
        return False
    result = restore(submitted, RELEASED)
    graded_cells = [each for each in result.notebook.cells if grade_id(each)]
    assert [each.id for each in graded_cells] == [
        each.id for each in RELEASED.cells if grade_id(each)
    ]
    for each, ours in zip(
        graded_cells, [each for each in RELEASED.cells if grade_id(each)], strict=True
    ):
        assert each.metadata == ours.metadata and isinstance(each.source, str)
        assert ours.metadata.nbgrader.solution or each.source == ours.source
    assert len({each.id for each in result.notebook.cells}) == len(result.notebook.cells)
    "\n".join([*map(str, result.repairs), *result.evidence]).encode()
    assert make_released() == RELEASED  # nothing of it was changed on the way
    return True


@given(st.one_of(FILES, GOOD, VALUES))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_json_is_malformed_or_a_notebook(raw):
    ends_well(json.dumps(raw).encode())


@given(st.data())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_notebook_with_anything_in_any_place_is_malformed_or_a_notebook(data):
    """The released notebook, with one to three values in it replaced by others."""
    raw = json.loads(json.dumps(RELEASED))
    for _ in range(data.draw(st.integers(1, 3))):
        here = raw
        while True:
            places = list(here if isinstance(here, dict) else range(len(here)))
            if not places:
                break
            position = data.draw(st.sampled_from(places))
            deeper = isinstance(here[position], (dict, list)) and data.draw(st.integers(0, 9)) > 1
            if not deeper:
                here[position] = data.draw(VALUES)
                break
            here = here[position]
    ends_well(json.dumps(raw).encode())


@given(st.binary(max_size=200), st.integers(0, 3000), st.integers(0, 200))
@settings(deadline=None)
def test_a_file_with_bytes_overwritten_is_malformed_or_a_notebook(data, start, length):
    whole = json.dumps(RELEASED).encode()
    ends_well(whole[:start] + data + whole[start + length :])


def test_the_released_notebook_goes_through():
    assert ends_well(json.dumps(RELEASED).encode())


def test_a_docstring_of_another_release_is_no_attack():
    released = make_released()
    source = 'def softmax(S):\n    """Softmax, as given."""\n    return S'
    released.cells.insert(
        1, cell("code", source, "given", grade=False, solution=False, locked=True)
    )
    raw = json.loads(json.dumps(released))
    raw["cells"][1]["source"] = source.replace("as given", "in other words")
    result = restore(parse(json.dumps(raw).encode(), "01-toy.ipynb"), released)
    assert result.notebook.cells[1].source == source and not result.evidence and not result.repairs
    raw["cells"][1]["source"] = source.replace("return S", "return S + 1")
    assert restore(parse(json.dumps(raw).encode(), "01-toy.ipynb"), released).evidence


def test_the_last_graded_cell_of_code_is_the_last_that_has_to_run():
    """A proof is graded as well, and behind it stands what only shows something."""
    shown = cell("code", "plot()", "demo")
    assert last_graded([*RELEASED.cells, shown]) == PLACE["check_twice"] < PLACE["proof"]
    assert last_graded([RELEASED.cells[0], RELEASED.cells[-1], shown]) == -1


def test_a_large_file_is_not_parsed_to_look_for_answers(tmp_path, monkeypatch):
    exercise = SimpleNamespace(notebook=tmp_path / "toy.ipynb")
    nbformat.write(RELEASED, exercise.notebook)
    submitted = copy.deepcopy(RELEASED)
    submitted.metadata["x"] = "x" * notebook.MOST_GIVEN
    given = nbformat.writes(RELEASED).encode()
    assert notebook.is_as_given(exercise, given)
    monkeypatch.setattr(notebook, "parse", None)
    assert not notebook.is_as_given(exercise, nbformat.writes(submitted).encode())


def test_long_cells_of_a_students_own_are_not_parsed(tmp_path, monkeypatch):
    exercise = SimpleNamespace(notebook=tmp_path / "toy.ipynb")
    nbformat.write(RELEASED, exercise.notebook)
    submitted = copy.deepcopy(RELEASED)
    submitted.cells += [nbformat.v4.new_code_cell("x = 1\n" * 20_000) for _ in range(2)]
    data = nbformat.writes(submitted).encode()
    parsed = []
    defined_in = notebook.defined_in
    monkeypatch.setattr(notebook, "defined_in", lambda own: parsed.append(own) or defined_in(own))
    assert not notebook.is_as_given(exercise, data)
    assert all(len(each.source) < 1000 for each in parsed)
    monkeypatch.setattr(notebook, "MOST_COMPARED", 10**6)
    assert notebook.is_as_given(exercise, data)


def test_a_long_cell_in_place_of_a_locked_one_is_not_taken_apart(monkeypatch):
    """Fifty megabytes of words would fill a worker's memory."""
    locked = nbformat.v4.new_code_cell("check()")
    long = nbformat.v4.new_code_cell("a " * (own_cells.MOST_CODE // 2 + 1))
    monkeypatch.setattr(notebook, "without_language", pytest.fail)
    assert not notebook._same_code(locked, long)

"""The tool that tests the tests: it changes what it should, and counts what the checks make of
it.
"""

import ast
import json
import re
import textwrap

import pytest
from exercise_tools import loaded
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import loader, mutants
from autograder.course.config import UserError

pytestmark = pytest.mark.long

SAMPLE = 6
CHANGES = {
    "return x.sum(axis=-1)": [
        "return x.sum(axis=0)",
        "return x.sum(axis=-2)",
        "return x.sum(axis=1)",
    ],
    "return np.swapaxes(x, -1, -2)": [
        "return np.swapaxes(x, -2, -2)",
        "return np.swapaxes(-1, x, -2)",
        "return x",
    ],
    "return x - y": ["return x + y", "return y - x", "return x", "return y", "return x - x"],
    "return x @ y": ["return x * y", "return y @ x"],
    "return x ** 2": ["return x * 2", "return x ** 3", "return x ** 1", "return x ** 0"],
    "return x + 1e-09": ["return x + 0.0", "return x - 1e-09", "return x + 2e-09"],
    "return x < y": ["return x <= y", "return x >= y"],
    "return x.max(keepdims=True)": [
        "return x.max(keepdims=False)",
        "return x.max()",
        "return x.min(keepdims=True)",
    ],
    "return x[1:, 0]": ["return x", "return x[:, 0]", "return x[1:, 1]", "return x[0, 1:]"],
    "return f(x, y)": [
        "return f(x)",
        "return f(y)",
        "return f(y, x)",
        "return x",
        "return f(x, x)",
    ],
    "return -x": ["return x"],
    "return x.T": ["return x"],
    "return x, y": ["return (y, x)", "(dropped)"],
    "return [v for v in x if v]": ["return [v for v in x]", "return [v for v in list(x)[1:] if v]"],
    "return np.einsum('ij,jk->ik', x, y)": [
        "return np.einsum('ij,jk->ki', x, y)",
        "return np.einsum('ji,jk->ik', x, y)",
    ],
    "return x if y else 0": ["return x", "return 0"],
    "x += 1": ["x -= 1", "x = 1", "(dropped)"],
    "assert x and y": ["assert x or y", "assert x", "(dropped)"],
    "for v in range(x): f(v)": [
        "for v in list(range(x))[1:]:",
        "for v in list(range(x))[:-1]:",
        "(dropped)",
    ],
    "if x != y: raise ValueError('no')": [
        "if not x != y:",
        "if x == y:",
        "if x < y:",
        "raise RuntimeError('no')",
    ],
}


def made(body, **more):
    """Return the mutants of a toy function of x and y with this body."""
    source = f'def toy(x, y):\n    """A docstring of 2 lines."""\n{textwrap.indent(body, "    ")}\n'
    return mutants.mutate(ast.parse(source).body[0], "toy", "toy", **more)


@pytest.mark.parametrize("body", CHANGES)
def test_each_operator_makes_its_mutants(body):
    after = [own.name.partition("  ->  ")[2] for own in made(body)]
    assert not [change for change in CHANGES[body] if change not in after], after


def test_a_class_is_changed_in_its_methods_each_with_parameters_of_its_own():
    source = """
@right("Toy")
class Toy(Base):
    \"\"\"Of 2 lines.\"\"\"

    def __init__(self, n):
        \"\"\"And 3.\"\"\"
        super().__init__()
        self.n = n + 1

    def forward(self, x, y):
        return self.n * x - y
"""
    after = [
        own.name.partition("  ->  ")[2]
        for own in mutants.mutate(ast.parse(source).body[0], "Toy", "Toy")
    ]
    assert {"self.n = n - 1", "return self.n * x + y", "return self.n * y - y", "(dropped)"} <= set(
        after
    )
    assert "return self.n * n - y" not in after and "return self.n * self - y" not in after


def test_no_mutant_stands_twice_or_is_the_original():
    body = (
        "z = x + 1\nz = x + 1\nif z.ndim != 2:\n    raise ValueError(f'{z.ndim + 1} "
        "axes')\nreturn z"
    )
    own = made(body)
    sources = [mutant.source for mutant in own]
    assert len(set(sources)) == len(sources) == len({mutant.name for mutant in own})
    assert ast.unparse(ast.parse(f"def toy(x, y):\n{textwrap.indent(body, '    ')}")) not in sources
    assert not any("z.ndim - 1} axes" in source for source in sources), "a message was changed"
    assert any(mutant.name.endswith("#2") for mutant in own), "two changes of one line to the same"


def test_the_tree_is_left_as_it_was():
    tree = ast.parse("def toy(x, y):\n    return [x @ y, -1][0]").body[0]
    before = ast.unparse(tree)
    mutants.mutate(tree, "toy", "toy")
    assert ast.unparse(tree) == before


TOY_CHECKS = '''
from autograder.checking import Suite, expect
suite = Suite(__name__, read={"total": "chapter 1"})

@suite.check()
def total_small(total, draw):
    """The sum of 0, 1, ... n - 1."""
    for n in (4, 7):
        expect(total(n) == n * (n - 1) / 2, "It is not.")
'''
TOY_ANSWERS = """
from autograder.checking import misconception, right

def counted(n):
    return range(n)

@misconception("total", label="n is counted", hint="Stop before n.")
def total_one_more(n):
    return n * (n + 1) / 2

@right("total")
def total_of_range(n):
    return sum(counted(n))
"""
TOY_RIGHT = """
from autograder.checking import right

@right("total")
def total_while(n):
    found = i = 0
    while i < n:
        found += i
        i += 1
    return found
"""
TOY_TEXT = """
import checks

def total(n):
    return n * (n - 1) / 2

checks.run("total", points=1)
raise SystemExit("what a text shows is not run")
"""


@pytest.fixture
def toy(tmp_path):
    """The folder of an exercise in a course of its own, without right_answers.py."""
    folder = tmp_path / "solutions" / "01-toy"
    folder.mkdir(parents=True)
    for name, text in [
        ("checks", TOY_CHECKS),
        ("misconceptions", TOY_ANSWERS),
        ("01-toy", TOY_TEXT),
    ]:
        (folder / f"{name}.py").write_text(text, encoding="utf8")
    return folder


def run(toy, *arguments):
    """Run the subcommand on the toy's course."""
    return CliRunner().invoke(
        cli.app, ["mutants", "01-toy", "--course", str(toy.parent.parent), *arguments]
    )


@pytest.mark.slow
def test_mutants_are_killed_by_checks_by_time_and_told_why(toy):
    (toy / "right_answers.py").write_text(TOY_RIGHT, encoding="utf8")
    found, count = mutants.mutants_of(loader.load(toy), "total")
    assert count == len(found) > 20
    found = [own for own in found if own.answer == "reference" or "(dropped)" in own.name]
    outcomes = dict(
        zip([own.name for own in found], mutants.examined(toy, found, 2, seconds=1.5), strict=True)
    )
    changed = outcomes["reference: return n * (n - 1) / 2  ->  return n * (n + 1) / 2"]
    assert changed.killed and changed.cause and changed.first == ["total_small"] * 3
    endless = outcomes["total_while: i += 1  ->  (dropped)"]
    assert endless.killed and not endless.ended
    assert outcomes["total_while: found += i  ->  (dropped)"].ended
    raises = outcomes["total_while: return found  ->  (dropped)"]
    assert raises.killed and not raises.raised
    assert outcomes["total_while: found = i = 0  ->  (dropped)"].raised
    survived = {name for name, outcome in outcomes.items() if not outcome.killed}
    assert survived == {"reference: return n * (n - 1) / 2  ->  return n * (n - 1) // 2"}


def test_a_right_answer_sees_the_helpers_of_the_module_that_it_stands_in(toy):
    (toy / "right_answers.py").write_text(TOY_RIGHT, encoding="utf8")
    found = [
        own
        for own in mutants.mutants_of(loader.load(toy), "total")[0]
        if own.answer == "total_of_range"
    ]
    outcomes = dict(zip([own.name for own in found], mutants.examined(toy, found, 1), strict=True))
    dropped = outcomes["total_of_range: return sum(counted(n))  ->  return counted(n)"]
    assert dropped.killed and not dropped.raised


@pytest.mark.slow
def test_what_one_mutant_left_in_memory_is_gone_before_the_next(toy):
    """One that fills the memory would else have the others rejected for it."""
    leaves = """
def total(n):
    import checking, weakref
    class Large: pass
    large = Large()
    large.own, checking.left = large, weakref.ref(large)
"""
    sees = """
def total(n):
    from autograder import checking
    return 0 if checking.left() else n * (n - 1) / 2
"""
    found = [mutants.Mutant("total", "reference", text, text) for text in (leaves, sees)]
    first, second = mutants.examined(toy, found, workers=1)
    assert first.killed and not second.killed and not second.raised


REASON = '[total."One of n and n - 1 is even."]'
SURVIVOR = "'n * (n - 1) / 2' = 'n * (n - 1) // 2'"


@pytest.mark.slow
def test_equal_ones_are_marked_and_counted(toy):
    done = run(toy, "--survivors")
    assert done.exit_code == 1 and f'[total."why"]\n{SURVIVOR}\n' in done.output
    (toy / "equal.toml").write_text(f"{REASON}\n{SURVIVOR}\n", encoding="utf8")
    done = run(toy)
    assert done.exit_code == 0, done.output
    row = mutants.recorded(toy.parent.parent)["01-toy"]["total"]
    assert row["equal"] == 1 and not row["survived"] and row["killed"] == row["examined"] - 1
    whole = json.loads((toy.parent.parent / mutants.DETAIL).read_text(encoding="utf8"))["01-toy"][
        "total"
    ]
    assert whole["by"] == {"total_small": row["killed"]} and row.items() <= whole.items()
    assert row["told"] >= row["cause"] >= 1
    of_one = f"{REASON}\n{SURVIVOR.replace('n *', 'reference: n *', 1)}\n"
    (toy / "equal.toml").write_text(of_one, encoding="utf8")
    assert run(toy, "--function", "total").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (
            "'no such text' = 'x'",
            "total: no such text  ->  x: marked in equal.toml, but fits no mutant",
        ),
        (
            "'total_of_range: n * (n - 1) / 2' = 'n * (n - 1) // 2'",
            "// 2: marked in equal.toml, but fits no mutant",
        ),
        (
            "'1' = ['2', '0']",
            "total: 1  ->  2: marked in equal.toml, but rejected in reference: return n",
        ),
    ],
)
def test_a_mark_that_does_not_fit_is_named(toy, mark, said):
    (toy / "equal.toml").write_text(f"{REASON}\n{SURVIVOR}\n{mark}\n", encoding="utf8")
    done = run(toy)
    assert done.exit_code == 1 and said in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("total = = 1", "solutions/01-toy/equal.toml is not TOML: "),
        ("[total]\n'1' = '2'", "solutions/01-toy/equal.toml: total should have reasons"),
        ('[total."why"]\n1 = 2', "solutions/01-toy/equal.toml: total should have reasons"),
    ],
)
def test_marks_that_cannot_be_read_are_named(toy, text, said):
    (toy / "equal.toml").write_text(text, encoding="utf8")
    with pytest.raises(UserError, match=re.escape(said)):
        mutants.marks(toy)


def test_a_mark_fits_whatever_else_its_line_says():
    found = made("return [x + 1, x * 2, y]")
    fit = [own.name.partition("  ->  ")[2] for own in found if own.has(("x + 1", "x - 1"))]
    assert fit == ["return [x - 1, x * 2, y]"]
    assert not [own for own in found if own.has(("other: x + 1", "x - 1"))]
    assert [own for own in found if own.has(("toy: x + 1", "x - 1"))]


def test_what_is_recorded_of_other_functions_and_exercises_stays(tmp_path):
    rows = {name: mutants.summed([], [], made) for made, name in enumerate("abc")}
    mutants.record(tmp_path, "02-two", rows, ["a", "b", "c"])
    mutants.record(tmp_path, "01-one", rows, ["a", "b", "c"])
    mutants.record(tmp_path, "01-one", {"b": mutants.summed([], [], 7)}, ["b", "c", "d"])
    kept = mutants.recorded(tmp_path)
    assert {name: list(own) for name, own in kept.items()} == {
        "01-one": ["b", "c"],
        "02-two": ["a", "b", "c"],
    }
    assert (kept["01-one"]["b"]["made"], kept["01-one"]["c"]["made"]) == (7, 2)


def test_of_many_mutants_the_same_are_chosen_and_all_of_the_reference(toy):
    exercise = loader.load(toy)
    all_of_them, count = mutants.mutants_of(exercise, "total")
    reference = [own.name for own in all_of_them if own.answer == "reference"]
    few, still = mutants.mutants_of(exercise, "total", most=len(reference) + 3)
    assert still == count and len(few) == len(reference) + 3
    assert few == mutants.mutants_of(exercise, "total", most=len(reference) + 3)[0]
    assert [own.name for own in few if own.answer == "reference"] == reference


@pytest.mark.slow
def test_pairs_have_two_mistakes_and_are_no_mutants_or_the_original(toy):
    exercise = loader.load(toy)
    once = {
        own.source for own in mutants.mutants_of(exercise, "total")[0] if own.answer == "reference"
    }
    pairs = mutants.pairs_of(exercise, "total", most=5)
    sources = {own.source for own in pairs}
    assert len(pairs) == len(sources) == 5 and not sources & once
    assert "def total(n):\n    return n * (n - 1) / 2" not in sources
    assert pairs == mutants.pairs_of(exercise, "total", most=5)
    assert all(outcome.killed for outcome in mutants.examined(toy, pairs))


def test_an_exercise_or_a_function_that_is_not_there_is_one_line(toy):
    wrong = (
        [["09-none"], "There is no exercise '09-none'"],
        [["01-toy", "--function", "sum"], "no function 'sum'"],
    )
    for arguments, said in wrong:
        with pytest.raises(UserError, match=said):
            cli.app(
                ["mutants", *arguments, "--course", str(toy.parent.parent)], standalone_mode=False
            )


@pytest.mark.slow
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_what_students_write_is_there_without_what_the_text_shows(folder):
    assert set(loaded(folder).programs) <= set(mutants.reference(folder))


@pytest.mark.slow
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_record_is_of_these_answers(folder):
    """Mend: `python -m autograder mutants NN-name`."""
    exercise, recorded = loader.load(folder), mutants.recorded()[folder.name]
    assert list(recorded) == sorted(exercise.programs)
    marked = mutants.marks(folder)
    assert set(marked) <= set(exercise.programs)
    for subject, row in recorded.items():
        found, made = mutants.mutants_of(exercise, subject)
        assert (row["made"], row["examined"]) == (made, len(found))
        assert row["killed"] + row["equal"] + len(row["survived"]) == row["examined"]
        own = marked.get(subject, {})
        assert not mutants.misfits(own, found, rejected=[])
        assert len([mutant for mutant in found if any(map(mutant.has, own))]) == row["equal"]
        assert not row["survived"], "look at each: a better check, or a line in equal.toml"


@pytest.mark.long
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_mutants_are_still_killed(folder):
    """A sample, about six to twelve of each function, as the record counts all."""
    exercise = loader.load(folder)
    for subject in exercise.programs:
        found = mutants.mutants_of(exercise, subject)[0]
        found = found[:: max(7, len(found) // SAMPLE)]
        outcomes = mutants.examined(folder, found)
        assert not mutants.summed(
            found, outcomes, len(found), mutants.marks(folder).get(subject, {})
        ).survived

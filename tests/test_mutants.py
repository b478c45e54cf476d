"""The tool that tests the tests: it changes what it should, and counts what the checks make of it."""

import ast
import textwrap

import pytest
from typer.testing import CliRunner

from autograder.authoring import loader, mutants

SAMPLE = 12
CHANGES = {
    "return x.sum(axis=-1)": ["return x.sum(axis=0)", "return x.sum(axis=-2)", "return x.sum(axis=1)"],
    "return np.swapaxes(x, -1, -2)": ["return np.swapaxes(x, -2, -2)", "return np.swapaxes(-1, x, -2)", "return x"],
    "return x - y": ["return x + y", "return y - x", "return x", "return y", "return x - x"],
    "return x @ y": ["return x * y", "return y @ x"],
    "return x ** 2": ["return x * 2", "return x ** 3", "return x ** 1", "return x ** 0"],
    "return x + 1e-09": ["return x + 0.0", "return x - 1e-09", "return x + 2e-09"],
    "return x < y": ["return x <= y", "return x >= y"],
    "return x.max(keepdims=True)": ["return x.max(keepdims=False)", "return x.max()", "return x.min(keepdims=True)"],
    "return x[1:, 0]": ["return x", "return x[:, 0]", "return x[1:, 1]", "return x[0, 1:]"],
    "return f(x, y)": ["return f(x)", "return f(y)", "return f(y, x)", "return x", "return f(x, x)"],
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
    "for v in range(x): f(v)": ["for v in list(range(x))[1:]:", "for v in list(range(x))[:-1]:", "(dropped)"],
    "if x != y: raise ValueError('no')": ["if not x != y:", "if x == y:", "if x < y:", "raise RuntimeError('no')"],
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
    after = [own.name.partition("  ->  ")[2] for own in mutants.mutate(ast.parse(source).body[0], "Toy", "Toy")]
    assert {"self.n = n - 1", "return self.n * x + y", "return self.n * y - y", "(dropped)"} <= set(after)
    assert "return self.n * n - y" not in after and "return self.n * self - y" not in after


def test_no_mutant_stands_twice_or_is_the_original():
    body = "z = x + 1\nz = x + 1\nif z.ndim != 2:\n    raise ValueError(f'{z.ndim + 1} axes')\nreturn z"
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

@misconception("total", label="n is counted", hint="Stop before n.")
def total_one_more(n):
    return n * (n + 1) / 2

@right("total")
def total_of_range(n):
    return sum(range(n))
"""
TOY_LOOP = """
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
    folder = tmp_path / "01-toy"
    folder.mkdir()
    for name, text in [("checks", TOY_CHECKS), ("misconceptions", TOY_ANSWERS), ("01-toy", TOY_TEXT)]:
        (folder / f"{name}.py").write_text(text, encoding="utf8")
    return folder


def test_mutants_are_killed_by_checks_by_time_and_told_why(toy):
    with open(toy / "misconceptions.py", "a", encoding="utf8") as answers:
        answers.write(TOY_LOOP)
    found, count = mutants.mutants_of(loader.load(toy), "total")
    assert count == len(found) > 20
    found = [own for own in found if own.answer == "reference" or "(dropped)" in own.name]
    outcomes = dict(zip([own.name for own in found], mutants.examined(toy, found, 2, seconds=1.5), strict=True))
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


def test_equal_ones_are_marked_and_counted(toy, monkeypatch, tmp_path):
    monkeypatch.setattr(loader, "FOLDERS", [toy])
    monkeypatch.setattr(mutants, "RECORD", tmp_path / "data" / "mutants.json")
    done = CliRunner().invoke(mutants.app, ["01-toy", "--survivors"])
    assert done.exit_code == 1 and "return n * (n - 1) // 2" in done.output
    marks = '[[equal]]\nfunction = "total"\nreason = "One of n and n - 1 is even."\nmutants = ["%s"]\n'
    survivor = "reference: return n * (n - 1) / 2  ->  return n * (n - 1) // 2"
    (toy / "equal.toml").write_text(marks % survivor, encoding="utf8")
    done = CliRunner().invoke(mutants.app, ["01-toy"])
    assert done.exit_code == 0, done.output
    row = mutants.recorded()["01-toy"]["total"]
    assert row["equal"] == [survivor] and not row["survived"] and row["killed"] == row["examined"] - 1
    assert row["by"] == {"total_small": row["killed"]} and row["told"] >= row["cause"] >= 1
    (toy / "equal.toml").write_text(marks % "reference: no such mutant", encoding="utf8")
    done = CliRunner().invoke(mutants.app, ["01-toy"])
    assert done.exit_code == 1 and "no such mutant" in done.output


def test_of_many_mutants_the_same_are_chosen_and_all_of_the_reference(toy):
    exercise = loader.load(toy)
    all_of_them, count = mutants.mutants_of(exercise, "total")
    reference = [own.name for own in all_of_them if own.answer == "reference"]
    few, still = mutants.mutants_of(exercise, "total", most=len(reference) + 3)
    assert still == count and len(few) == len(reference) + 3
    assert few == mutants.mutants_of(exercise, "total", most=len(reference) + 3)[0]
    assert [own.name for own in few if own.answer == "reference"] == reference


def test_an_exercise_that_is_not_there():
    done = CliRunner().invoke(mutants.app, ["09-none"])
    assert done.exit_code == 1 and "There is no exercise '09-none'" in done.output


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_what_students_write_is_there_without_what_the_text_shows(folder):
    assert set(loader.load(folder).programs) <= set(mutants.reference(folder))


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_record_is_of_these_answers(folder):
    """Mend: `python -m autograder.authoring.mutants NN-name`."""
    exercise, recorded = loader.load(folder), mutants.recorded()[folder.name]
    assert list(recorded) == exercise.programs
    marked = mutants.equals(folder)
    assert set(marked) <= set(exercise.programs)
    for subject, row in recorded.items():
        found, made = mutants.mutants_of(exercise, subject)
        assert (row["made"], row["examined"]) == (made, len(found))
        assert row["killed"] + len(row["passed"]) == row["examined"]
        assert set(row["passed"]) <= {own.name for own in found}
        assert set(marked.get(subject, {})) == set(row["equal"]), "marked, and rejected or not there"
        assert not row["survived"], "look at each: a better check, or a line in equal.toml"


@pytest.mark.sweep
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_mutants_are_still_killed(folder):
    """A sample of them, at most some 12 of each function, as the record counts all."""
    exercise = loader.load(folder)
    for subject in exercise.programs:
        found = mutants.mutants_of(exercise, subject)[0]
        found = found[:: max(7, len(found) // SAMPLE)]
        equal = mutants.equals(folder).get(subject, {})
        outcomes = mutants.examined(folder, found)
        passed = [own.name for own, outcome in zip(found, outcomes, strict=True) if not outcome.killed]
        assert not set(passed) - set(equal)

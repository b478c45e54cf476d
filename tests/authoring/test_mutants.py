"""The tool that tests the tests: it changes what it should, and counts what the checks make of
it.
"""

import ast
import json
import textwrap

import pytest
from exercise_tools import loaded
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import loader, mutants
from autograder.course.config import UserError

pytestmark = pytest.mark.long

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


def mutants_with(body):
    """Return the mutants of a toy function of x and y with this body."""
    source = f'def toy(x, y):\n    """A docstring of 2 lines."""\n{textwrap.indent(body, "    ")}\n'
    return mutants.mutate(ast.parse(source).body[0], "toy", "toy")


def lines_after(mutant_list):
    """Return the changed line of each mutant, after the change."""
    return [mutant.name.partition("  ->  ")[2] for mutant in mutant_list]


@pytest.mark.parametrize("body", CHANGES)
def test_each_operator_makes_its_mutants(body):
    after = lines_after(mutants_with(body))
    assert not [change for change in CHANGES[body] if change not in after], after


def test_each_method_of_a_class_is_changed_with_its_parameters():
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
    after = lines_after(mutants.mutate(ast.parse(source).body[0], "Toy", "Toy"))
    expected = {"self.n = n - 1", "return self.n * x + y", "return self.n * y - y", "(dropped)"}
    assert expected <= set(after)
    assert "return self.n * n - y" not in after and "return self.n * self - y" not in after


def test_mutants_differ_from_each_other_and_from_the_original():
    body = (
        "z = x + 1\nz = x + 1\nif z.ndim != 2:\n    raise ValueError(f'{z.ndim + 1} "
        "axes')\nreturn z"
    )
    made_mutants = mutants_with(body)
    sources = [mutant.source for mutant in made_mutants]
    assert len(set(sources)) == len(sources) == len({mutant.name for mutant in made_mutants})
    assert ast.unparse(ast.parse(f"def toy(x, y):\n{textwrap.indent(body, '    ')}")) not in sources
    assert not any("z.ndim - 1} axes" in source for source in sources), "a message was changed"
    assert any(mutant.name.endswith("#2") for mutant in made_mutants), (
        "two changes of one line to the same"
    )


def test_the_syntax_tree_is_unchanged():
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
    total = i = 0
    while i < n:
        total += i
        i += 1
    return total
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


def by_name(tried, outcomes):
    """Return the outcome of each mutant by its name."""
    return dict(zip([mutant.name for mutant in tried], outcomes, strict=True))


@pytest.mark.slow
def test_checks_or_a_time_limit_kill_mutants(toy):
    (toy / "right_answers.py").write_text(TOY_RIGHT, encoding="utf8")
    tried, count = mutants.mutants_of(loader.load(toy), "total")
    assert count == len(tried) > 20
    chosen = [
        mutant for mutant in tried if mutant.answer == "reference" or "(dropped)" in mutant.name
    ]
    outcomes = by_name(chosen, mutants.examined(toy, chosen, 2, seconds=6))
    changed = outcomes["reference: return n * (n - 1) / 2  ->  return n * (n + 1) / 2"]
    assert changed.killed and changed.cause and changed.first == ["total_small"] * 3
    endless = outcomes["total_while: i += 1  ->  (dropped)"]
    assert endless.killed and not endless.ended
    assert outcomes["total_while: total += i  ->  (dropped)"].ended
    raises = outcomes["total_while: return total  ->  (dropped)"]
    assert raises.killed and not raises.raised
    assert outcomes["total_while: total = i = 0  ->  (dropped)"].raised
    survived = {name for name, outcome in outcomes.items() if not outcome.killed}
    assert survived == {"reference: return n * (n - 1) / 2  ->  return n * (n - 1) // 2"}


def test_a_right_answer_sees_the_helpers_of_its_module(toy):
    (toy / "right_answers.py").write_text(TOY_RIGHT, encoding="utf8")
    every, _made = mutants.mutants_of(loader.load(toy), "total")
    tried = [mutant for mutant in every if mutant.answer == "total_of_range"]
    outcomes = by_name(tried, mutants.examined(toy, tried, 1))
    dropped = outcomes["total_of_range: return sum(counted(n))  ->  return counted(n)"]
    assert dropped.killed and not dropped.raised


@pytest.mark.slow
def test_the_memory_of_a_mutant_is_freed_before_the_next(toy):
    """Otherwise a mutant that fills the memory would have the others rejected for it."""
    leaves = """
def total(n):
    import checking, weakref
    class Large: pass
    large = Large()
    large.itself, checking.left = large, weakref.ref(large)
"""
    sees = """
def total(n):
    from autograder import checking
    return 0 if checking.left() else n * (n - 1) / 2
"""
    two_mutants = [mutants.Mutant("total", "reference", text, text) for text in (leaves, sees)]
    first, second = mutants.examined(toy, two_mutants, workers=1)
    assert first.killed and not second.killed and not second.raised


BREAKS_OURS = """
def total(n):
    import os
    os.environ["NO_RANGE"] = "1"
    raise TypeError("of the mutant and of the course's answer")
"""


@pytest.mark.slow
def test_where_the_courses_answer_fails_as_well_a_mutant_has_no_result(toy):
    """It is no survivor, and not killed either."""
    answers = TOY_ANSWERS.replace("range(n)\n", "range(n) if 'NO_RANGE' not in os.environ else n\n")
    (toy / "misconceptions.py").write_text("import os\n" + answers, encoding="utf8")
    changed = [
        mutants.Mutant("total", "reference", name, source)
        for name, source in (
            ("breaks ours", BREAKS_OURS),
            ("raises", "def total(n):\n    raise TypeError"),
            ("right", "def total(n):\n    return n * (n - 1) / 2"),
        )
    ]
    outcomes = [mutants.examined(toy, [mutant], workers=1)[0] for mutant in changed]
    assert outcomes[0].first == [mutants.NO_RESULT] * 3
    assert [outcome.killed for outcome in outcomes] == [False, True, False]
    assert [outcome.survived for outcome in outcomes] == [False, False, True]
    row = mutants.summed(changed, outcomes, 3)
    assert (row.killed, row.equal, row.without_result) == (1, 1, ["breaks ours"])
    some = mutants.Outcome(["", mutants.NO_RESULT])
    assert some.survived and not some.killed
    assert not mutants.Outcome(["total_small", mutants.NO_RESULT]).killed


def test_a_function_with_a_mutant_without_a_result_is_not_recorded(toy, monkeypatch):
    def examined(folder, found, workers):
        return [mutants.Outcome([mutants.NO_RESULT])] + [mutants.Outcome(["x"])] * (len(found) - 1)

    monkeypatch.setattr(mutants, "examined", examined)
    result = run(toy, "--accept")
    assert result.exit_code == 1
    assert "total: no result, because the course's own answer also failed" in result.output
    root = toy.parent.parent
    assert mutants.recorded(root)["01-toy"] == {}


SURVIVOR = "reference: return n * (n - 1) / 2  ->  return n * (n - 1) // 2"


@pytest.mark.slow
def test_accepted_mutants_are_counted_and_may_only_become_fewer(toy):
    root = toy.parent.parent
    result = run(toy, "--survivors")
    assert result.exit_code == 1 and f"total: {SURVIVOR}\n" in result.output
    assert "total" not in mutants.recorded(root)["01-toy"]
    result = run(toy, "--accept")
    assert result.exit_code == 0, result.output
    row = mutants.recorded(root)["01-toy"]["total"]
    assert row["equal"] == 1 and row["killed"] == row["examined"] - 1
    details = json.loads((root / mutants.DETAIL).read_text(encoding="utf8"))["01-toy"]["total"]
    assert details["by"] == {"total_small": row["killed"]} and row.items() <= details.items()
    assert details["passed"] == [SURVIVOR]
    assert row["told"] >= row["cause"] >= 1
    assert run(toy, "--function", "total").exit_code == 0

    more = {"total": row | {"equal": 3}}
    mutants.record(root / mutants.RECORD, "01-toy", more, ["total"])
    assert run(toy).exit_code == 0
    assert mutants.recorded(root)["01-toy"]["total"] == row, "the number fell"

    checks = (toy / "checks.py").read_text(encoding="utf8")
    (toy / "checks.py").write_text(checks.replace("(4, 7)", "(1,)"), encoding="utf8")
    result = run(toy, "--survivors")
    assert result.exit_code == 1 and result.output.count("total: ") > 1
    assert mutants.recorded(root)["01-toy"]["total"] == row, "the number did not rise"


def test_records_of_other_functions_and_exercises_remain(tmp_path):
    path = tmp_path / "mutants.json"
    rows = {name: {"equal": number} for number, name in enumerate("abc")}
    mutants.record(path, "02-two", rows, ["a", "b", "c"])
    mutants.record(path, "01-one", rows, ["a", "b", "c"])
    mutants.record(path, "01-one", {"b": {"equal": 7}}, ["b", "c", "d"])
    assert json.loads(path.read_text(encoding="utf8")) == {
        "01-one": {"b": {"equal": 7}, "c": {"equal": 2}},
        "02-two": rows,
    }


def test_the_same_mutants_are_chosen_and_all_of_the_reference(toy):
    exercise = loader.load(toy)
    every, count = mutants.mutants_of(exercise, "total")
    reference = [mutant for mutant in every if mutant.answer == "reference"]
    few, same_count = mutants.mutants_of(exercise, "total", most=len(reference) + 3)
    assert same_count == count and len(few) == len(reference) + 3
    assert few == mutants.mutants_of(exercise, "total", most=len(reference) + 3)[0]
    assert [mutant for mutant in few if mutant.answer == "reference"] == reference


@pytest.mark.slow
def test_pairs_have_two_mistakes_and_differ_from_mutants_and_the_original(toy):
    exercise = loader.load(toy)
    every, _made = mutants.mutants_of(exercise, "total")
    once = {mutant.source for mutant in every}
    pairs = mutants.pairs_of(exercise, "total", most=5)
    sources = {pair.source for pair in pairs}
    assert len(pairs) == len(sources) == 5 and not sources & once
    assert "def total(n):\n    return n * (n - 1) / 2" not in sources
    assert pairs == mutants.pairs_of(exercise, "total", most=5)
    assert all(outcome.killed for outcome in mutants.examined(toy, pairs))
    everything = mutants.pairs_of(exercise, "total", most=len(every))
    assert not [pair for pair in everything if pair.name.startswith(SURVIVOR)], "no mistake"


def test_an_unknown_exercise_or_function_is_an_error(toy):
    wrong = (
        [["09-none"], "There is no exercise '09-none'"],
        [["01-toy", "--function", "sum"], "no function 'sum'"],
    )
    for arguments, message in wrong:
        with pytest.raises(UserError, match=message):
            cli.app(
                ["mutants", *arguments, "--course", str(toy.parent.parent)], standalone_mode=False
            )


@pytest.mark.slow
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_reference_defines_all_functions_and_runs_no_output(folder):
    assert set(loaded(folder).programs) <= set(mutants.reference(folder))


@pytest.mark.slow
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_record_is_about_these_answers(folder):
    """To fix a failure: `python -m autograder mutants NN-name`."""
    exercise, recorded = loader.load(folder), mutants.recorded()[folder.name]
    assert list(recorded) == sorted(exercise.programs)
    for subject, row in recorded.items():
        tried, count = mutants.mutants_of(exercise, subject)
        assert (row["made"], row["examined"]) == (count, len(tried))
        assert row["killed"] + row["equal"] == row["examined"]
        assert row["equal_in_sample"] <= min(row["equal"], len(mutants.sample_of(tried)))


@pytest.mark.long
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_no_more_mutants_pass_than_recorded(folder):
    """Tries a sample of each function's mutants; `autograder mutants` tries all."""
    exercise, recorded = loader.load(folder), mutants.recorded()[folder.name]
    for subject in exercise.programs:
        sample = mutants.sample_of(mutants.mutants_of(exercise, subject)[0])
        outcomes = mutants.examined(folder, sample)
        passed = [
            mutant.name
            for mutant, outcome in zip(sample, outcomes, strict=True)
            if not outcome.killed
        ]
        assert len(passed) <= recorded[subject]["equal_in_sample"], passed

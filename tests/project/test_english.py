"""The linter of English: what it refuses and lets through, and which texts it finds.

`make lint` runs it on all.
"""

import importlib.util

import pytest

from autograder.course.config import ROOT

spec = importlib.util.spec_from_file_location("english", ROOT / ".ci" / "english.py")
english = importlib.util.module_from_spec(spec)
spec.loader.exec_module(english)


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("What does not hold is one line.", "On any problem, it prints one line."),
        ("So does, without a GPU, the rest.", "Without a GPU, the rest does the same."),
        ("Whoever wants answers unpacks it.", "Anyone can unpack it."),
        ("It is there in Chinese, too.", "It is also there in Chinese."),
        ("The pages are made anew.", "The pages are made again."),
        ("A line says the mend.", "A line says the fix."),
        ("Nobody loses points.", "No one loses points."),
        ("The feedback says what held.", "The feedback says what passed."),
        ("Look at what came.", "Look at the result."),
        ("These bring no points.", "These are not graded."),
        ("It takes some ten seconds.", "It takes about ten seconds."),
        ("Rows are normalised.", "Rows are normalized, by `normalise`."),
        (
            " ".join(["word"] * 46) + ".",
            " ".join(["word"] * 20) + ". " + "Word " + " ".join(["word"] * 30) + ".",
        ),
    ],
)
def test_an_odd_sentence_is_refused_and_a_plain_one_passes(odd, plain):
    assert list(english.faults(odd)) and not list(english.faults(plain))


def test_texts_are_found_with_their_lines_and_code_is_not():
    page = "# Title\n\nOne `anew`\nline.\n\n```python\nanew = 1\n```\n"
    page += "\n```{admonition} A name\nInside it.\n```\n\n| a | cell |\n"
    assert [*english.paragraphs(page)] == [
        (1, "Title"), (3, "One `anew` line."), (11, "Inside it."), (14, " a "), (14, " cell ")
    ]  # fmt: skip
    checks = '"""For students to read."""\nhint = "one two three"\nname = "one"\n'
    checks += '\n\ndef f():\n    """A check of f here."""\n'
    assert [text for _, text in english.of_program(checks, with_help=False)] == ["one two three"]
    assert len([*english.of_program(checks, with_help=True)]) == 3
    notebook = (
        "# %% ask [markdown]\n# Write `f`\n# now.\n\n# %% f\nx = 1  # no text\n# a comment "
        "of three\n"
    )
    assert [text for _, text in english.of_notebook(notebook)] == [
        "Write `f` now.",
        "a comment of three",
    ]

"""The pages on what the checks catch have every exercise, every listed wrong answer, and a check
for each.
"""

import json
import re

import pytest

from autograder.authoring import loader, mutants
from autograder.course.config import ROOT


@pytest.fixture(scope="module")
def page(html):
    return (html / "book" / "catches.html").read_text(encoding="utf8")


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_every_wrong_answer_is_listed_with_its_check(html, folder):
    exercise = loader.load(folder)
    page = (html / "book" / "catches" / f"exercise-{folder.name}.html").read_text(encoding="utf8")
    for subject in exercise.subjects:
        part = re.search(
            rf'<details[^>]*id="catches-{folder.name}-{subject}".*?</details>', page, re.S
        )
        assert part, f"the page has no table of {folder.name}"
        rows = re.findall(r"<tr.*?</tr>", part[0].partition("<tbody>")[2], re.S)
        assert len(rows) == len(exercise.suite.listed("wrong_for", subject))
        for row in rows:
            answer, caught, hint = (
                re.sub(r"<[^>]+>", "", cell).strip()
                for cell in re.findall(r"<td.*?</td>", row, re.S)
            )
            assert answer and caught and hint


def test_the_first_page_leads_to_each_exercise_by_the_old_addresses(html, page):
    assert len(re.findall(r'<li[^>]*id="exercise-', page)) == len(loader.FOLDERS)
    for folder in loader.FOLDERS:
        line = re.search(rf'<li[^>]*id="exercise-{int(folder.name[:2])}".*?</li>', page, re.S)[0]
        address = f"catches/exercise-{folder.name}.html"
        assert f'href="{address}"' in line
        for subject in loader.load(folder).subjects:
            anchor = f"catches-{folder.name}-{subject}"
            assert f'id="{anchor}"' in line and f'href="{address}#{anchor}"' in line


def test_the_first_page_counts_explained_answers(page):
    summary = re.sub(r"<[^>]+>", "", re.search(r"<p><strong>In short:.*?</p>", page, re.S)[0])
    shares = [int(share) for share in re.findall(r"(\d+)%", summary)]
    assert len(shares) == 5 and 99 <= sum(shares[:4]) <= 101
    counted = json.loads((ROOT / "book" / "data" / "accuracy.json").read_text(encoding="utf8"))
    assert int(re.search(r"Exercise (\d+) is the weakest", summary)[1]) in {
        int(name[:2]) for name in counted
    }


def cells(table):
    """Return the texts of a table's rows, by the text of their first cell."""
    rows = [
        re.findall(r"<td.*?</td>", row, re.S) for row in re.findall(r"<tr.*?</tr>", table, re.S)
    ]
    texts = [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in rows if row]
    return {first: rest for first, *rest in texts}


def test_every_listed_answer_is_counted(page):
    summary, *_others = map(cells, re.findall(r'<table class="abh-counts.*?</table>', page, re.S))
    for folder in loader.FOLDERS:
        exercise = loader.load(folder)
        listed = {
            kind: sum(len(exercise.suite.listed(kind, subject)) for subject in exercise.subjects)
            for kind in ("wrong_for", "right_for")
        }
        functions, checks = len(exercise.subjects), len(exercise.suite.checks)
        counts = [functions, checks, listed["wrong_for"], listed["wrong_for"], listed["right_for"]]
        assert summary[folder.name] == [str(count) for count in counts], (
            "not caught, not recognized, or rejected"
        )
    assert int(summary["All"][0]) == sum(
        int(row[0]) for name, row in summary.items() if name != "All"
    )


def test_the_page_has_the_results_of_mutants(page):
    _summary, table, _accuracy, _unseen = map(
        cells, re.findall(r'<table class="abh-counts.*?</table>', page, re.S)
    )
    for name, functions in mutants.recorded().items():
        rows = functions.values()
        kinds = ("examined", "killed", "told", "advice", "equal")
        examined, killed, told, advice, equal = (sum(row[kind] for row in rows) for kind in kinds)
        counts = (examined, killed, told, advice, equal)
        assert table[name] == [str(count) for count in counts]
        assert examined == killed + equal
    assert {folder.name for folder in loader.FOLDERS} <= set(table)

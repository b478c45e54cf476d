"""The page for teachers keeps to the chapters, to the stated times, and to the lists of
mistakes.
"""

import re
import sys

import pytest

from autograder.authoring import chapters, loader, unseen
from autograder.course.config import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import teaching

PAGE = (ROOT / "book" / "teaching.md").read_text(encoding="utf8")
CHAPTERS = chapters.read(ROOT)
PARTS = (
    "Goals.",
    "Three questions for the room.",
    "Show with the figure.",
    "Skip if time is short.",
)
PLANS = {6: range(1, 8), 14: range(1, 15)}
"""For each plan the chapters that it covers, by its number of weeks."""
QUESTIONS = 3
MISTAKE = re.compile(r"\{mistake\}`(\d+) (\w+): ([^`]+)`")
each_chapter = pytest.mark.parametrize("name", CHAPTERS)


def section_of(name):
    """Return the text of a chapter's section."""
    heading = f"## Chapter {CHAPTERS[name].number}: {CHAPTERS[name].title}\n"
    assert PAGE.count(heading) == 1
    return re.split(r"^## ", PAGE.partition(heading)[2], maxsplit=1, flags=re.M)[0]


def parts_of(name):
    """Return the parts of a chapter's section by their names."""
    _before, *parts = re.split(r"^\*\*([A-Z][\w ]+\.)\*\*", section_of(name), flags=re.M)
    assert tuple(parts[::2]) == PARTS
    return dict(zip(PARTS, parts[1::2], strict=True))


@each_chapter
def test_every_section_has_the_same_parts(name):
    goals, questions, show, skip = parts_of(name).values()
    assert len(re.findall(r"^- ", goals, re.M)) in (3, 4)
    asked = re.split(r"^\d\. ", questions, flags=re.M)[1:]
    assert len(asked) == QUESTIONS
    for question in asked:
        assert question.count("*Answer:*") == 1 and "*Wrong:*" in question
        assert len(MISTAKE.findall(question)) == question.count("*Wrong:*")
    assert show.strip() and skip.strip()


@each_chapter
def test_buttons_and_sections_are_those_of_the_chapter(name):
    pages = " ".join(
        " ".join(page.read_text(encoding="utf8").split()) for page in CHAPTERS[name].pages
    )
    parts = parts_of(name)
    text = " ".join((parts["Show with the figure."] + parts["Skip if time is short."]).split())
    for italic in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", text):
        assert italic == "Next" or italic in pages, f"the chapter has no {italic!r}"


@pytest.mark.parametrize("weeks", PLANS)
def test_a_plan_names_its_chapters_and_their_times(weeks):
    plan = PAGE.partition(f"## A plan for {weeks} weeks\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in re.findall(r"^\| \d.*", plan, re.M)
    ]
    assert [int(row[0]) for row in rows] == list(range(1, weeks + 1))
    covered = []
    for _week, linked, reading, work, exercise in rows:
        links = re.findall(r"\[(\d+)\]\(([\w-]+)\.md\)", linked)
        assert all(CHAPTERS[page].number == int(number) for number, page in links) and work
        numbers = " ".join(number for number, _page in links)
        assert (reading, exercise) == (
            f"{{takes}}`reading {numbers}`",
            f"{{takes}}`exercise {numbers}`",
        )
        covered += [int(number) for number, _page in links]
    assert covered == list(PLANS[weeks])
    whole = covered == [chapter.number for chapter in CHAPTERS.values()]
    assert f"{{takes}}`exercise {'all' if whole else ' '.join(map(str, covered))}`" in plan


@each_chapter
def test_the_stated_time_is_the_sum_of_the_tasks(name):
    text = (ROOT / "solutions" / name / f"{name}.py").read_text(encoding="utf8")
    before_stretch = text.partition("# %% stretch [")[0]  # its time is not included
    stated, *tasks = map(int, re.findall(r"^# \*About (\d+) minutes", before_stretch, re.M))
    assert teaching.minutes("exercise", name) == stated
    assert stated == sum(tasks)


def test_times_are_read_from_the_pages_and_added_up():
    assert teaching.minutes("reading", "11-gpu") == 20 + 25  # of two pages
    assert [teaching.duration(total) for total in (75, 180, 610)] == [
        "75 min",
        "3 h",
        "10 h 10 min",
    ]
    times = {name: teaching.minutes("exercise", name) for name in CHAPTERS}
    assert sorted(times, key=times.get)[-2:] == ["10-efficient", "11-gpu"], (
        "the page says that these are the longest"
    )


def test_every_mistake_is_listed_and_counted():
    cited = MISTAKE.findall(PAGE)
    assert len(cited) == PAGE.count("{mistake}") == len(set(cited))
    for number, subject, label in cited:
        folder = teaching.FOLDERS[int(number)]
        assert label in teaching.labels(folder)[subject]
        if subject != teaching.PENCIL:
            times, tried = teaching.recognition_counts(folder.name, subject, label)
            assert 0 <= times <= tried


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_record_has_the_causes_of_all_unseen_answers(folder):
    """Mend: python benchmarks/unseen.py NN"""
    wrong = [answer.subject for answer in unseen.answers(folder.name) if answer.kind == "wrong"]
    causes = unseen.recorded()[folder.name]["causes"]
    assert {subject: counts["wrong"] for subject, counts in causes.items()} == {
        answer: wrong.count(answer) for answer in wrong
    }
    for subject, counts in causes.items():
        assert set(counts["named"]) <= teaching.labels(folder)[subject]
        assert all(count <= counts["wrong"] for count in counts["named"].values())

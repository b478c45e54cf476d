"""A grade that anyone can recompute: hashes on the first day, keys after the due date, the same
points at home.
"""

import dataclasses
import hashlib
import hmac
import html
import json
import re
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from toy_course import RIGHT, hand_in, record_of, run, toy_course

from autograder.authoring.release import release
from autograder.course import deadlines, seeds
from autograder.course.config import ROOT, Course, UserError
from autograder.course.seeds import Origin, Seeds
from autograder.feedback.bare_page import DISCLOSED, disclosed, disclosed_in, made_of
from autograder.grades.records import from_text
from autograder.grades.results import Disclosure, StoredCell, StoredGrades, SubmissionScore
from autograder.grading import recompute, worker

DIGEST = "ab" * 32
DUE = "[due]\n01-toy = {due:%Y-%m-%dT%H:%M:%S}Z\n"
EXTENSION = '\n[[extension]]\nstudent = "{student}"\nexercise = "01-toy"\ntime = "{time}"\n'
MINUS = {**RIGHT, "add": "def add(a, b):\n    return a - b"}
LUCKY = {
    **RIGHT,
    "add": "import numpy as np\n\ndef add(a, b):\n    return a + b * (np.random.rand() < 0.5)",
}
STAMP = "2026-01-02 03:04:05 UTC"


def by_hand(key, text):
    """The seed that follows from a key, as the book says it is computed."""
    return int.from_bytes(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()[:6], "big")


# Keys, seeds and hashes.


@pytest.fixture
def bare(tmp_path):
    """A course with nothing released."""
    course = toy_course(tmp_path / "course")
    return Course(root=course.root, output_folder=course.root)


def test_seeds_follow_from_the_key_and_the_key_has_the_hash(bare):
    drawn = Seeds(bare)
    key = drawn.key("01-toy")
    text = f"attention-by-hand 1\0commitment\x0001-toy\0{key}"
    assert drawn.commitment("01-toy") == hashlib.sha256(text.encode()).hexdigest()
    assert drawn.for_submission("01-toy", DIGEST) == (
        by_hand(key, f"checks\0{DIGEST}"),
        by_hand(key, f"guest\0{DIGEST}"),
    )


def test_the_page_for_instructors_says_how_to_compute_both(bare, capsys):
    drawn, page = Seeds(bare), (ROOT / "book" / "grading.md").read_text(encoding="utf-8")
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "hmac" in block
    ]
    key = drawn.key("01-qkv")
    exec(code.replace("THE KEY", key).replace("THE DIGEST", DIGEST), {})
    assert (
        capsys.readouterr().out
        == f"{drawn.commitment('01-qkv')}\n{drawn.for_submission('01-qkv', DIGEST)[0]}\n"
    )


def test_nothing_else_follows_from_a_key(bare):
    """Neither another exercise, nor a later submission, nor a seed of an earlier release, by the
    same rules.
    """
    drawn = Seeds(bare)
    key, digests = drawn.key("01-toy"), (DIGEST, "cd" * 32)
    from_key = {
        seeds.seed_for(key, purpose, digest)
        for purpose in ("checks", "guest", "01-toy", "02-other")
        for digest in digests
    }
    for name in ("01-toy", "02-other"):
        from_key |= {
            seeds.seed_for(seeds.key_of(key, name, kind), "checks", digest)
            for kind in ("key", "late key")
            for digest in digests
        }
    other = {seed for digest in digests for seed in drawn.for_submission("02-other", digest)}
    earlier = {
        seeds.seed_for(drawn.secret, purpose, digest)
        for purpose in ("01-toy", "guest\x0001-toy")
        for digest in digests
    }
    drawn.reveal("01-toy")
    late = {seed for digest in digests for seed in drawn.for_submission("01-toy", digest)}
    assert not from_key & (other | earlier | late)
    assert drawn.secret not in bare.revealed.read_text() and list(
        json.loads(bare.revealed.read_text())
    ) == ["01-toy"]
    assert (
        len(
            {
                drawn.key("01-toy"),
                drawn.key("02-other"),
                drawn.commitment("01-toy"),
                drawn.commitment("02-other"),
            }
        )
        == 4
    )


def test_a_grade_keeps_its_seed_and_only_one_that_was_drawn_again_gets_another(bare):
    drawn = Seeds(bare)
    earlier = seeds.seed_for(drawn.secret, "01-toy", DIGEST)
    first, _ = drawn.for_submission("01-toy", DIGEST)
    drawn.reveal("01-toy")
    late, _ = drawn.for_submission("01-toy", DIGEST)
    origins = {first: Origin.KEY, late: Origin.LATE, earlier: Origin.EARLIER, 7: Origin.REDRAWN}
    assert {seed: drawn.origin("01-toy", DIGEST, seed) for seed in origins} == origins
    assert [
        drawn.for_submission("01-toy", DIGEST, seed)[0] for seed in (first, late, earlier, 7)
    ] == [
        first,
        late,
        earlier,
        late,
    ]
    guests = [drawn.guest("01-toy", DIGEST, seed) for seed in (first, late, earlier)]
    assert (
        guests[2] == seeds.seed_for(drawn.secret, "guest\x0001-toy", DIGEST)
        and len(set(guests)) == 3
    )


@pytest.mark.parametrize("secret", ["a password", "0" * 64, "0123456" * 9 + "0"])
def test_a_secret_that_can_be_guessed_is_not_committed_to(bare, secret):
    bare.secret.write_text(secret + "\n")
    result = run(bare, "commit")
    assert result.exit_code == 1 and "was not drawn at random" in result.output
    with pytest.raises(UserError, match="was not drawn at random"):
        Seeds(bare).reveal("01-toy")
    assert not bare.revealed.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 100_000, '{"01-toy": 7}', '{"01-toy": "ab"}', "\udcff"]
)
def test_a_damaged_file_of_keys_does_not_count_as_none(bare, text):
    bare.revealed.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="is damaged") as error:
        Seeds(bare)
    assert "\n" not in str(error.value)


def test_hashes_are_printed_before_anything_is_released_and_stay(bare):
    first, again = run(bare, "commit"), run(bare, "commit")
    assert first.exit_code == 0 and first.output == again.output
    assert first.output == f"01-toy {Seeds(bare).commitment('01-toy')}\n"
    assert Seeds(bare).secret not in first.output and Seeds(bare).key("01-toy") not in first.output


# Pages.


def shown(**parts):
    """A disclosure that agrees with itself."""
    key = "0f" * 32
    disclosure = Disclosure(
        "01-toy", key, seeds.commitment_of("01-toy", key), Origin.KEY,
        seeds.seed_for(key, "checks", DIGEST),
        seeds.seed_for(key, "guest", DIGEST), DIGEST, DIGEST, None, {}, DIGEST, {}, {}, {},
    )  # fmt: skip
    return dataclasses.replace(disclosure, **parts)


def page_with(data):
    content = html.escape(data if isinstance(data, str) else disclosed(data))
    return f'<meta name="made-of" content="00">\n<meta name="recompute" content="{content}">'


def test_a_page_says_what_was_written_and_an_old_page_stays_up_to_date():
    disclosure = shown(files={'a "name" <b>\udcff': DIGEST}, stamp="now & then")
    assert disclosed_in(page_with(disclosure)) == disclosure and disclosed_in("<meta>") is None
    stored = StoredGrades(
        SubmissionScore(1.0, 2.0), {"add": StoredCell(1.0, 2.0, has_manual_score=True)}
    )
    before = "0954c8f5b7e8fe54"  # of a page that has no disclosure, when fields had other names
    assert stored.digest() == before != dataclasses.replace(stored, disclosure=disclosure).digest()


def changed(**parts):
    return json.dumps({**json.loads(disclosed(shown())), **parts})


FORGED = {
    "seed negative": changed(seed=-1),
    "seed huge": changed(seed=2**48),
    "seed a text": changed(seed="7"),
    "seed true": changed(seed=True),
    "seed long": changed().replace('"seed": ', '"seed": ' + "9" * 5000),
    "key no hash": changed(key="\x1b[2J"),
    "file no hash": changed(files={"a": "b"}),
    "files a list": changed(files=["/etc/passwd"]),
    "points huge": changed(points={"a": 10**400}),
    "points not a number": changed(points={"a": float("nan")}),
    "origin unknown": changed(origin="splendid"),
    "nested": "[" * 100_000,
    "a list": "[1]",
    "half": changed()[:100],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_page_discloses_nothing(name):
    assert disclosed_in(page_with(FORGED[name])) is None


BAD_PAGES = {
    "not a page": ("hello", "page.html is not a feedback page of this course."),
    "a picture": ("\x89PNG\0\udcff", "page.html is not a feedback page of this course."),
    "not revealed": (
        '<meta name="made-of" content="00">',
        "page.html does not have the seed of its grade.",
    ),
    "another key": (page_with(shown(key="1e" * 32)), "its hash is not the hash of its key."),
    "another seed": (
        page_with(shown(seed=7)),
        "its seed does not follow from its key and its digest.",
    ),
    "another guest seed": (page_with(shown(guest_seed=7)), "its seed does not follow from its key"),
}


@pytest.mark.parametrize("name", BAD_PAGES)
def test_a_page_that_cannot_be_used_is_one_line(tmp_path, name):
    text, fault = BAD_PAGES[name]
    (tmp_path / "page.html").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError) as error:
        recompute.read_page(tmp_path / "page.html")
    assert fault in str(error.value) and "\n" not in str(error.value)


def test_no_page_is_one_line(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        recompute.read_page(tmp_path / "page.html")


# A class.


@pytest.fixture(scope="module")
def graded(isolated, tmp_path_factory):
    """A class of three after the due date, graded, and what the course published on its first
    day.
    """
    toy = toy_course(tmp_path_factory.mktemp("reveal") / "course")
    course = Course(root=toy.root, output_folder=toy.root)
    published = run(course, "commit").output
    release(course, course.sources()[0])
    for student, answers in {"ada": RIGHT, "ben": MINUS, "cem": LUCKY}.items():
        hand_in(course.submitted, student, answers, stamp=STAMP, toy=course)
    (course.submitted / "ben" / "01-toy" / "data.csv").write_text("1,2\n")
    hand_in(course.submitted, "eve", raw=b"no notebook", toy=course)
    result = run(course, "grade", "--jobs", "1")
    assert result.exit_code == 0, result.output
    return course, published


@pytest.fixture
def course(graded, tmp_path):
    """A copy of that class, to change."""
    shutil.copytree(graded[0].root, tmp_path / "course")
    course = Course(root=tmp_path / "course", output_folder=tmp_path / "course")
    set_due(course, timedelta(days=-1))
    return course


@pytest.fixture
def revealed(course, graded):
    """That class after the reveal."""
    result = run(course, "reveal", "01-toy")
    assert result.exit_code == 0, result.output
    return course


def set_due(course, after, *extensions):
    """Write a due date so long after now, and extensions of (student, time)."""
    text = DUE.format(due=datetime.now(UTC) + after)
    text += "".join(EXTENSION.format(student=student, time=time) for student, time in extensions)
    deadlines.path_of(course).write_text(text, encoding="utf-8")


def page_of(course, student):
    return course.paths_of(student, "01-toy").page


def home(course, student, folder):
    """Copy a student's notebook, files and page into a folder of its own, with much else; return
    the notebook.
    """
    shutil.copytree(course.submitted / student / "01-toy", folder, dirs_exist_ok=True)
    (folder / "timestamp.txt").unlink()
    (folder / "notes.txt").write_text("not submitted")
    shutil.copy(page_of(course, student), folder / "01-toy.html")
    return folder / "01-toy.ipynb"


def checked(course, notebook, page=None):
    return run(course, "check", notebook, "--as", page or notebook.with_suffix(".html"))


@pytest.mark.slow
def test_after_the_reveal_each_page_has_what_the_hash_of_the_first_day_confirms(course, graded):
    before = {student: record_of(course, student) for student in ("ada", "ben", "cem", "eve")}
    assert all(disclosed_in(page_of(course, student).read_text()) is None for student in before)
    result = run(course, "reveal", "01-toy")
    assert result.exit_code == 0 and "Pages rewritten: 4." in result.output
    key = re.search(r"^01-toy key ([0-9a-f]{64})$", result.output, re.M)[1]
    commitment = hashlib.sha256(
        f"attention-by-hand 1\0commitment\x0001-toy\0{key}".encode()
    ).hexdigest()
    assert graded[1] == f"01-toy {commitment}\n" and f"01-toy hash {commitment}\n" in result.output
    for student in ("ada", "ben", "cem"):
        text = page_of(course, student).read_text()
        page = disclosed_in(text)
        assert (page.key, page.commitment, page.origin) == (key, commitment, Origin.KEY)
        assert page.seed == before[student]["seed"] == by_hand(key, f"checks\0{page.submission}")
        assert (
            f"drawn from the seed {page.seed}." in text
            and "compare the two" in text
            and STAMP in text
        )
        assert page.versions == worker.versions() and page.versions["Python"] in text
        assert Seeds(course).secret not in text
    assert disclosed_in(page_of(course, "eve").read_text()) is None  # nothing was drawn for it
    assert {student: record_of(course, student) for student in before} == before


@pytest.mark.slow
def test_a_hash_with_a_public_key_is_reported_as_useless(revealed, graded):
    result = run(revealed, "commit")
    assert graded[1] in result.output and "The key of 01-toy is public already" in result.output


@pytest.mark.slow
def test_a_revealed_page_stays_revealed_and_grades_stay_as_they_are(revealed):
    before = {student: record_of(revealed, student) for student in ("ada", "ben")}
    pages = {student: page_of(revealed, student).read_text() for student in before}
    assert "Graded 0; 4 unchanged" in run(revealed, "grade", "--jobs", "1").output
    assert {student: page_of(revealed, student).read_text() for student in pages} == pages
    page_of(revealed, "ada").unlink()
    assert "Pages rewritten: 1." in run(revealed, "reveal", "01-toy").output
    assert page_of(revealed, "ada").read_text() == pages["ada"]
    assert run(revealed, "grade", "--force", "--jobs", "1").exit_code == 0
    assert disclosed_in(page_of(revealed, "ben").read_text()) == disclosed_in(pages["ben"])
    again = {student: record_of(revealed, student) for student in before}
    for part in ("seed", "cells", "score"):
        assert all(again[student][part] == before[student][part] for student in before)


@pytest.mark.slow
def test_a_later_submission_draws_from_a_seed_that_does_not_follow_from_the_key(revealed):
    hand_in(revealed.submitted, "dora", RIGHT, toy=revealed)
    hand_in(revealed.submitted, "ada", MINUS, stamp=STAMP, toy=revealed)
    first = run(revealed, "grade", "--dry-run", "--jobs", "1")
    assert "Would grade 2 of 5" in first.output
    assert run(revealed, "grade", "--jobs", "1").exit_code == 0
    key = Seeds(revealed).key("01-toy")
    for student in ("dora", "ada"):
        record, text = record_of(revealed, student), page_of(revealed, student).read_text()
        page = disclosed_in(text)
        assert record["seed"] == page.seed and page.origin == Origin.LATE
        assert record["seed"] != by_hand(key, f"checks\0{record['submission']}")
        assert "was graded after the key of this exercise was published" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "after, extensions, fault",
    [
        (timedelta(hours=1), [], "The last student has time for 01-toy until "),
        (timedelta(days=-1), [("zoe", "2d")], "The last student has time for 01-toy until "),
        (timedelta(days=-3), [("zoe", "2d")], ""),
        (timedelta(days=-1), [("zoe", "2d"), ("zoe", "0d")], ""),
    ],
)
def test_nothing_is_revealed_while_a_student_has_time(course, after, extensions, fault):
    set_due(course, after, *extensions)
    before = page_of(course, "ada").read_text()
    result = run(course, "reveal", "01-toy")
    assert (result.exit_code, fault in result.output) == (1 if fault else 0, True)
    assert course.revealed.exists() is not bool(fault) and (
        page_of(course, "ada").read_text() == before
    ) is bool(fault)


@pytest.mark.slow
def test_without_a_due_date_it_asks_and_without_grades_it_says_so(course):
    deadlines.path_of(course).unlink()
    assert "01-toy has no due date" in run(course, "reveal", "01-toy").output
    hand_in(course.submitted, "dora", RIGHT, toy=course)
    result = run(course, "reveal", "01-toy", "--without-due-date")
    assert (
        result.exit_code == 1
        and "1 submission has no grade for 01-toy yet, or changed since: dora." in result.output
    )
    assert (
        "There is no folder"
        in run(course, "reveal", "01-toy", "--submitted", course.root / "none").output
    )
    assert (
        "There is no exercise '01-toi'. Did you mean 01-toy?"
        in run(course, "reveal", "01-toi").output
    )
    assert not course.revealed.exists()
    shutil.rmtree(course.submitted / "dora")
    assert run(course, "reveal", "01-toy", "--without-due-date").exit_code == 0


@pytest.mark.slow
def test_the_due_date_of_the_gradebook_also_counts(course):
    from autograder.grades import gradebook

    deadlines.path_of(course).unlink()
    with gradebook.opened(course) as book:
        book.find_assignment("01-toy").duedate = datetime.now(UTC).replace(tzinfo=None) - timedelta(
            days=1
        )
        book.find_submission("01-toy", "ben").extension = timedelta(days=2)
        book.db.commit()
    assert "The last student has time for 01-toy until" in run(course, "reveal", "01-toy").output


@pytest.mark.slow
@pytest.mark.parametrize("student", ["ada", "ben", "cem"])
def test_at_home_there_are_the_same_points(revealed, tmp_path, student):
    """For a right answer, a wrong one with a file beside it, and one that depends on its own
    random numbers.
    """
    result = checked(revealed, home(revealed, student, tmp_path / "home"))
    assert result.exit_code == 0, result.output
    assert "Same points and same results in all 3 checks as on the page." in result.output
    assert Seeds(revealed).commitment("01-toy") in result.output


@pytest.mark.slow
def test_at_home_each_difference_is_named(revealed, tmp_path, monkeypatch):
    notebook = home(revealed, "ben", tmp_path / "home")
    notebook.write_text(notebook.read_text().replace("a - b", "a + b"))
    (notebook.parent / "data.csv").write_text("3,4\n")
    monkeypatch.setattr(
        worker, "versions", lambda: {"Python": "2.7.18", "numpy": "1.0", "machine": "PDP-11"}
    )
    result = checked(revealed, notebook)
    assert result.exit_code == 1
    for line in (
        "01-toy.ipynb is not the notebook that was graded: its SHA-256 is different.",
        "data.csv is not the file that was submitted: its SHA-256 is different.",
        "check_add: adds: failed on the page, passed here",
        "check_add: 1 points on the page, 4 points here",
        "here",
        "machine: Linux",
    ):
        assert line in result.output
    assert "Python: 3" in result.output and "2.7.18 here" in result.output
    (notebook.parent / "data.csv").unlink()
    checks = revealed.root / "exercises" / "01-toy" / "checks.py"
    checks.write_text(checks.read_text() + "# newer\n")
    result = checked(revealed, notebook)
    assert "data.csv was submitted with the notebook, and is missing next to it." in result.output
    assert (
        "01-toy was graded with another release of the exercise than the one here." in result.output
    )


@pytest.mark.slow
def test_at_home_a_page_that_does_not_fit_is_one_line(revealed, tmp_path):
    notebook = home(revealed, "ada", tmp_path / "home")
    page = notebook.with_suffix(".html")
    disclosure = disclosed_in(page.read_text())
    other = dataclasses.replace(
        disclosure,
        assignment="02-other",
        commitment=seeds.commitment_of("02-other", disclosure.key),
    )
    text = DISCLOSED.sub(lambda match: page_with(other).splitlines()[1], page.read_text())
    page.write_text(text)
    result = checked(revealed, notebook)
    assert (
        result.exit_code == 1
        and "The page is of 02-other, but the notebook is of 01-toy." in result.output
    )
    assert "is not a feedback page" in checked(revealed, notebook, notebook).output
    assert (
        "Leave out --seed or --as."
        in run(revealed, "check", notebook, "--as", page, "--seed", 3).output
    )
    stamp = dataclasses.replace(disclosure, stamp="2026-01-02 03:04:06 UTC")
    page.write_text(DISCLOSED.sub(lambda match: page_with(stamp).splitlines()[1], text))
    result = checked(revealed, notebook)
    assert result.exit_code == 1 and "the time stamp on the page" in result.output
    assert "the results are the same, but the submission differs" in result.output


@pytest.mark.slow
def test_a_name_on_a_page_opens_no_file(revealed, tmp_path):
    notebook = home(revealed, "ada", tmp_path / "home")
    secret = tmp_path / "private.txt"
    secret.write_text("private")
    disclosure = disclosed_in(notebook.with_suffix(".html").read_text())
    names = ("../private.txt", str(secret), "\x1b[2J")
    forged = dataclasses.replace(
        disclosure, files={name: hashlib.sha256(b"private").hexdigest() for name in names}
    )
    notebook.with_suffix(".html").write_text(page_with(forged))
    result = checked(revealed, notebook)
    assert (
        result.exit_code == 1
        and "../private.txt was submitted with the notebook, and is missing" in result.output
    )
    assert "\x1b" not in result.output


@pytest.mark.slow
def test_a_grade_of_an_earlier_release_is_reported(course):
    """Its record has a seed that follows from the secret itself, and no versions."""
    path = course.paths_of("ada", "01-toy").record
    raw = json.loads(path.read_text())
    raw["seed"], raw["schema"] = (
        seeds.seed_for(Seeds(course).secret, "01-toy", raw["submission"]),
        8,
    )
    del raw["versions"]
    path.write_text(json.dumps(raw))
    assert from_text(path.read_text()).versions == {}
    assert run(course, "reveal", "01-toy").exit_code == 0
    text = page_of(course, "ada").read_text()
    assert (
        disclosed_in(text).origin == Origin.EARLIER
        and "by a release that published no hashes yet" in text
    )
    assert run(course, "grade", "--force", "--jobs", "1").exit_code == 0
    assert record_of(course, "ada")["seed"] == raw["seed"]


@pytest.mark.slow
def test_the_nbgrader_page_has_the_seed(revealed):
    from nbgrader.apps import NbGraderAPI

    before = page_of(revealed, "ben").read_text()
    page_of(revealed, "ben").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(revealed.root)
        NbGraderAPI(config=revealed.config).generate_feedback("01-toy", "ben", force=True)
    after = page_of(revealed, "ben").read_text()
    assert disclosed_in(after) == disclosed_in(before) and made_of(after) == made_of(before)

"""A gradebook in PostgreSQL, and one grader at a time in it as in SQLite: a real server, started
and ended here.
"""

import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from servers import FORMGRADER, Postgres, jupyter, postgres, postgres_programs
from sqlalchemy import create_engine, inspect, text
from toy_course import RIGHT, hand_in, run, toy_course

from autograder.authoring.release import release
from autograder.checking.words import Message
from autograder.course import locks
from autograder.course.config import ROOT, Course, UserError, masked
from autograder.grades import database, gradebook, records
from autograder.grades.results import CellResult, Kind, Outcome

pytestmark = pytest.mark.long

SLOW = {**RIGHT, "twice": "import time\ntime.sleep(2)\n\n\ndef twice(a):\n    return a + a"}
CLASS = {
    "ada": RIGHT,
    "ben": {"add": RIGHT["add"]},
    "cem": {},
    "dee": SLOW,
    "eve": RIGHT,
    "fay": RIGHT,
}
SECRET = "horse battery/@staple"  # with what an address has to quote
PROOF = "a proof"


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server; without its programs, say why the test is left out (in CI: fail)."""
    if postgres_programs() is None:
        reason = (
            "no PostgreSQL: neither on the path nor in /usr/lib/postgresql (Debian: apt-get "
            "install postgresql)"
        )
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with postgres() as started:
        started.sql(f"CREATE ROLE teacher LOGIN PASSWORD '{SECRET}'")
        started.sql("CREATE ROLE nobody LOGIN")
        yield started


@pytest.fixture
def address(server, request):
    """The address of a new, empty database, with a password in it."""
    name = f"book{len(server.sql('SELECT FROM pg_database'))}"
    server.sql(f"CREATE DATABASE {name} OWNER teacher")
    yield server.url(name, "teacher", SECRET)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A released toy course, without submissions."""
    course = toy_course(tmp_path_factory.mktemp("course"))
    for exercise in course.sources():
        release(course, exercise)
    return course


@pytest.fixture
def course(isolated, toy, tmp_path):
    """That course with a folder of its own for submissions and grades, and the one secret of all
    these tests.
    """
    course = Course(root=toy.root, output_folder=tmp_path / "grades")
    course.output_folder.mkdir()
    course.secret.write_text("one for all these tests\n")
    return course


def with_class(course, students=CLASS):
    """Hand in for these students; return the folder."""
    folder = course.output_folder / "submitted"
    for student in students:
        hand_in(folder, student, CLASS.get(student, RIGHT), toy=course)
    return folder


def begin(course, submitted, *more, command="grade"):
    """Start a command in a process of its own."""
    arguments = [command, "--course", course.root, "--into", course.output_folder]
    arguments += ["--submitted", submitted] if command == "grade" else []
    return subprocess.Popen(
        [sys.executable, "-m", "autograder", *map(str, [*arguments, *more])],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process, status=0):
    """Wait for a command to end with this status; return what it said.

    None of that has the password.
    """
    out, err = process.communicate(timeout=1800)
    output = out + err
    assert process.returncode == status, output
    assert "Traceback" not in output and SECRET not in output and "staple" not in output
    return out, err


def until(condition, seconds=600):
    """Wait for a condition; return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


@contextlib.contextmanager
def stopped(process, course):
    """Let a grader stand still for a while, when some of the class is graded and some is not."""
    until(lambda: graded(course))
    process.send_signal(signal.SIGSTOP)
    try:
        assert len(graded(course)) < len(CLASS)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def graded(course):
    """Return the records there are."""
    return {
        path.parent.parent.name: records.read(path)
        for path in course.autograded.glob("*/*/grade.json")
    }


def scores(course):
    """Return what the gradebook says: by student, the score and each cell's points."""
    with Gradebook(course.db_url, course.course_id) as book:
        return {
            submission.student.id: (
                submission.score,
                {grade.name: grade.auto_score for grade in submission.notebooks[0].grades},
            )
            for submission in book.find_assignment("01-toy").submissions
        }


def contents(url):
    """Return every row of every table, as text, with what tells of PostgreSQL when it was
    written.
    """
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = {}
        for table in inspect(connection).get_table_names():
            written = ", xmin" if database.is_server(url) else ""
            tables[table] = sorted(
                map(str, connection.execute(text(f"SELECT *{written} FROM {table}")))
            )
    engine.dispose()
    return tables


def test_grades_are_those_of_sqlite_and_go_the_same_ways(course, address, tmp_path):
    submitted = with_class(course)
    course_there = replace(course, db=address)
    roster = tmp_path / "class.csv"
    roster.write_text(
        "id,name,email\nada,Ada Lovelace,ada@example.org\nzoe,Zoë Müller,zoe@example.org\n", "utf-8"
    )
    other = Course(root=course.root, output_folder=tmp_path / "other")
    other.output_folder.mkdir()
    other.secret.write_text(course.secret.read_text())
    outputs = {}
    for where, more in ((course_there, ["--db", address]), (other, [])):
        output = run(where, "collect", submitted, "--roster", roster, "--submitted", where.output_folder / "in", "--yes",
                   "--into", where.output_folder, *more)  # fmt: skip
        assert (
            output.exit_code == 0
            and "2 students entered in" in output.output
            and "staple" not in output.output
        )
        output = run(where, "grade", "--submitted", submitted, "--into", where.output_folder, *more)
        assert (
            output.exit_code == 0 and "Graded 6" in output.output and "staple" not in output.output
        )
        assert run(where, "report", "--into", where.output_folder, *more).exit_code == 0
        output = run(where, "export", "--into", where.output_folder, *more)
        assert output.exit_code == 0, output.output
        outputs[where] = (where.output_folder / "grades.csv").read_text()
    assert scores(course_there) == scores(other) and scores(course_there)["ada"][0] == 6
    assert (
        outputs[course_there] == outputs[other]
        and "Lovelace,Ada,ada@example.org" in outputs[course_there]
    )
    assert (
        not course_there.gradebook.exists()
        and not list(course_there.output_folder.glob("*.lock"))
        and other.gradebook.exists()
    )
    assert "teacher" not in (course_there.output_folder / "report.html").read_text()
    # And nothing of it is graded again.
    output = run(
        course_there,
        "grade",
        "--submitted",
        submitted,
        "--into",
        course_there.output_folder,
        "--db",
        address,
    )
    assert output.exit_code == 0 and "6 unchanged" in output.output


def test_a_dry_run_writes_nothing(course, address):
    submitted = with_class(course, ["ada", "ben"])
    grade = ("grade", "--submitted", submitted, "--into", course.output_folder, "--db", address)
    output = run(course, *grade, "--dry-run")
    assert (
        output.exit_code == 0 and "2 new, 0 gain, 0 lose. Nothing was written." in output.output
    ), output.output
    assert contents(address) == {}
    assert run(course, *grade).exit_code == 0
    before = contents(address)
    assert len(before["submitted_assignment"]) == 2
    hand_in(submitted, "ben", RIGHT, toy=course)
    hand_in(submitted, "eve", RIGHT, toy=course)
    output = run(course, *grade, "--dry-run")
    assert (
        output.exit_code == 0 and "Would grade 2 of 3: 1 new, 1 gain, 0 lose." in output.output
    ), output.output
    assert contents(address) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_second_of_two_graders_waits_and_names_the_first(course, kind, request):
    more = ["--db", request.getfixturevalue("address")] if kind == "postgres" else []
    submitted = with_class(course)
    first = begin(course, submitted, "--jobs", 1, *more)
    with stopped(first, course):
        second = begin(course, submitted, "--jobs", 2, *more)
        line = second.stderr.readline()
        third = begin(course, submitted, *more)
        third.stderr.readline()
        third.send_signal(signal.SIGINT)
        ended(third, status=130)
    assert "Waiting until the gradebook" in line and f"process {first.pid}, since " in line
    out, err = ended(first)
    assert "Graded 6." in out and "Waiting" not in err
    out, err = ended(second)
    assert "Graded 0; 6 unchanged" in out and "Waiting" not in err
    grades = graded(course)
    assert set(grades) == set(CLASS) and not any(record.history for record in grades.values())
    database_course = replace(course, db=more[1] if more else "")
    assert {student: score for student, (score, _) in scores(database_course).items()} == {
        student: record.score for student, record in grades.items()
    }
    # The lock is free again, also where its holder was killed.
    killed = begin(course, submitted, "--force", "--jobs", 1, *more)
    until(lambda: any(record and record.history for record in graded(course).values()))
    killed.kill()
    killed.communicate()
    assert "Waiting" not in ended(begin(course, submitted, *more))[1]


def test_a_connection_that_drops_is_made_again_and_nothing_is_lost(course, server, address):
    submitted = with_class(course)
    grading = begin(course, submitted, "--jobs", 1, "--db", address)
    query = (
        "SELECT pid, pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND "
        "granted"
    )
    with stopped(grading, course):
        ((pid, reply),) = server.sql(query)
        assert reply
    # Whoever goes on holds the lock with another connection.
    until(
        lambda: [
            process
            for (process,) in server.sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")
            if process != pid
        ]
    )
    out, _ = ended(grading)
    assert "Graded 6." in out
    grades = graded(course)
    assert set(grades) == set(CLASS) and not any(record.history for record in grades.values())
    assert {
        student: score for student, (score, _) in scores(replace(course, db=address)).items()
    } == {student: record.score for student, record in grades.items()}


def test_a_server_that_is_gone_ends_the_command_which_goes_on_where_it_was(course, server, address):
    submitted = with_class(course)
    grading = begin(course, submitted, "--jobs", 1, "--db", address)
    with stopped(grading, course):
        server.stop()
    try:
        _, err = ended(grading, status=1)
    finally:
        server.start()
    (line,) = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert "teacher:***@127.0.0.1" in line and "Earlier grades are kept" in line
    grades = graded(course)
    assert 0 < len(grades) < len(CLASS)
    out, _ = ended(begin(course, submitted, "--db", address))
    assert f"Graded {len(CLASS) - len(grades)}; {len(grades)} unchanged" in out
    assert set(scores(replace(course, db=address))) == set(CLASS) == set(graded(course))


@pytest.fixture
def writer(toy, address, tmp_path):
    """A writer into an empty gradebook on the server that has the toy exercise."""
    course = Course(root=toy.root, output_folder=tmp_path, db=address)
    with gradebook.opened(course, lambda line: None) as book:
        gradebook.register(course, book, course.exercises()[0])
        yield gradebook.Writer(course, book)


def outcome(points):
    cells = {
        "check_add": CellResult(points, 4.0),
        "check_twice": CellResult(0.0, 2.0),
        "proof": CellResult(0.0, 3.0),
    }
    return Outcome(Kind.WRONG, Message(""), [], [], cells, "")


def test_what_was_written_before_the_connection_dropped_is_not_written_twice(
    writer, server, monkeypatch
):
    commit, drops = writer.gradebook.db.commit, []

    def commit_and_drop():
        commit()
        if not drops:  # the database has it all, and the answer is lost
            drops.append(
                server.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                )
            )
            writer.gradebook.db.execute(text("SELECT 1"))

    monkeypatch.setattr(writer.gradebook.db, "commit", commit_and_drop)
    stored = writer.write("01-toy", "ada", outcome(3.0), None)
    assert drops and stored.submission_score.score == 3.0 and stored == writer.read("01-toy", "ada")
    rows = contents(writer.course.db_url)
    assert (
        len(rows["submitted_assignment"])
        == len(rows["submitted_notebook"])
        == len(rows["student"])
        == 1
    )
    assert len(rows["grade"]) == len({row.split(",")[0] for row in rows["grade"]})


def test_a_grader_that_lost_the_lock_writes_nothing(writer, server, monkeypatch):
    monkeypatch.setattr(gradebook, "PAUSES", (0.0, 0.0))
    name = writer.gradebook.engine.url.database
    with other_connection(server, name, "eve@grader2, process 7, since 10:15 UTC") as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        )  # and takes it at once
        other.execute(f"SELECT pg_advisory_lock({locks.GRADEBOOK})")
        with pytest.raises(
            UserError,
            match="dropped, and eve@grader2, process 7, since 10:15 UTC now grades into it",
        ):
            writer.write("01-toy", "ada", outcome(3.0), None)
    assert contents(writer.course.db_url)["submitted_assignment"] == []
    writer.write("01-toy", "ada", outcome(3.0), None)  # the other is gone


@contextlib.contextmanager
def other_connection(server, name, application):
    import psycopg

    address = f"host={server.folder} port={server.port} user=boss dbname={name}"
    with psycopg.connect(address, autocommit=True, application_name=application) as connection:
        yield connection


def test_the_name_of_a_grader_fits_into_application_name(monkeypatch):
    monkeypatch.setattr(locks.getpass, "getuser", lambda: "o'neill-of-the-very-long-name")
    monkeypatch.setattr(locks.socket, "gethostname", lambda: "grader.cs.a-university.example")
    monkeypatch.setattr(locks.os, "getpid", lambda: 4194304)
    assert (
        locks.me().startswith("o?neill-of-t@grader.cs.a-univ, process 4194304, since ")
        and len(locks.me()) <= 63
    )


def test_a_row_that_the_database_refuses_stops_no_other(writer):
    # SQLite counts nothing
    with pytest.raises(gradebook.GradeRefused, match="value too long for type character varying"):
        writer.write("01-toy", "x" * 140, outcome(3.0), None)
    with pytest.raises(gradebook.GradeRefused, match="NUL"):
        writer.write("01-toy", "ben", outcome(3.0), None, comment=lambda stored: "\0")
    writer.write("01-toy", "ada", outcome(3.0), None)
    assert set(scores(writer.course)) == {"ada"}


def test_odd_names_and_texts_go_in(course, address):
    raises = 'def add(a, b):\n    raise ValueError("\\0\\ud800\\x1b[31m ü " * 3000)'
    submitted = course.output_folder / "submitted"
    for student in ("x" * 200, "Zoë 'O\"Neill; --", "\u202ename"):
        hand_in(submitted, student, {**RIGHT, "add": raises}, toy=course)
    output = run(
        course, "grade", "--submitted", submitted, "--into", course.output_folder, "--db", address
    )
    assert output.exit_code == 0, output.output
    grades = scores(replace(course, db=address))
    assert len(grades) == 3 and {score for score, _ in grades.values()} == {2.0}


REFUSALS = {
    "wrong password": (
        "postgresql+psycopg://teacher:wr0ng@127.0.0.1:{port}/postgres",
        "authentication failed.*pgpass",
    ),
    "no password": (
        "postgresql+psycopg://teacher@127.0.0.1:{port}/postgres",
        "no password supplied.*PGPASSWORD",
    ),
    "wrong in a query": (
        "postgresql+psycopg://teacher@127.0.0.1:{port}/postgres?password=wr0ng",
        "password=[*]{{3}}",
    ),
    "no database": (
        "postgresql+psycopg://boss:wr0ng@/none?host={folder}&port={port}",
        "does not exist.*createdb",
    ),
    "no role": (
        "postgresql+psycopg://eve:wr0ng@/postgres?host={folder}&port={port}",
        "does not exist.*createuser",
    ),
    "no rights": (
        "postgresql+psycopg://nobody:wr0ng@/postgres?host={folder}&port={port}",
        "permission.*GRANT",
    ),
    "no server": (
        "postgresql+psycopg://teacher:wr0ng@127.0.0.1:1/x",
        "refused.*that the server is running",
    ),
    "no host": ("postgresql+psycopg://teacher:wr0ng@none.invalid/x", "resolve host.*host name"),
    "no port": (
        "postgresql+psycopg://teacher:wr0ng@127.0.0.1:http/x",
        "is not the URL of a database",
    ),
    "no address": ("teacher:wr0ng@127.0.0.1", "[Pp]arse"),
    "no such database": ("postgres://teacher:wr0ng@127.0.0.1/x", "Can't load plugin"),
    "no driver": (
        "postgresql+pg8000://teacher:wr0ng@127.0.0.1/x",
        r'needs the package pg8000.*"\.\[postgres\]"',
    ),
}


# A dry run needs no rights: where it sees no tables, nobody has a grade yet.
ASKED = [
    (case, command)
    for case in REFUSALS
    for command in ("export", "grade --dry-run")
    if case != "no rights"
]


@pytest.mark.parametrize(("case", "command"), [*ASKED, ("no rights", "report")])
def test_a_refusal_is_one_line_without_the_password(toy, server, tmp_path, case, command):
    address, message = (
        part.format(port=server.port, folder=server.folder) if "{" in part else part
        for part in REFUSALS[case]
    )
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    more = ["--submitted", tmp_path / "submitted"] if "grade" in command else []
    result = run(toy, *command.split(), "--into", tmp_path, "--db", address, *more)
    assert result.exit_code == 1 and "wr0ng" not in result.output
    (line,) = result.output.strip().splitlines()
    assert line.startswith("Error: ") and re.search(message, line), line


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_tables_of_another_nbgrader_are_recognized(toy, tmp_path, kind, request):
    url = (
        request.getfixturevalue("address")
        if kind == "postgres"
        else f"sqlite:///{tmp_path}/gradebook.db"
    )
    course = Course(root=toy.root, output_folder=tmp_path, db=url)
    with gradebook.opened(course):
        pass

    def say(query):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(query))
        engine.dispose()

    say("UPDATE alembic_version SET version_num = '282d30a0218e'")
    mend = "name a new database" if kind == "postgres" else f"nbgrader db upgrade --db {url}"
    for ask in (
        lambda: gradebook.rows(course),
        lambda: gradebook.copy(url, f"sqlite:///{tmp_path}/copy.db"),
    ):
        with pytest.raises(UserError, match=f"older nbgrader.*{mend}"):
            ask()
    say("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    with pytest.raises(UserError, match="newer nbgrader than this one"):
        gradebook.rows(course)
    say("DROP TABLE alembic_version")  # whoever made them was killed just before this
    assert gradebook.rows(course) == []


def test_a_gradebook_moves_from_one_database_to_the_other(course, address, tmp_path):
    submitted = with_class(course, ["ada", "ben"])
    assert (
        run(course, "grade", "--submitted", submitted, "--into", course.output_folder).exit_code
        == 0
    )
    with Gradebook(course.db_url, course.course_id) as book:
        book.find_grade("proof", "01-toy", "01-toy", "ada").manual_score = 2.5
        book.db.commit()
    moved = replace(course, db=address)
    assert gradebook.copy(course.db_url, address) == sum(
        len(rows) for table, rows in contents(course.db_url).items() if table != "alembic_version"
    )
    assert gradebook.rows(moved) == gradebook.rows(course) and scores(moved) == scores(course)
    output = run(
        moved, "grade", "--submitted", submitted, "--into", course.output_folder, "--db", address
    )
    assert output.exit_code == 0 and "2 unchanged" in output.output
    with pytest.raises(UserError, match=r"teacher:\*\*\*@.* already has grades"):
        gradebook.copy(course.db_url, address)
    gradebook.copy(address, f"sqlite:///{tmp_path}/back.db")
    assert gradebook.rows(replace(course, db=f"sqlite:///{tmp_path}/back.db")) == gradebook.rows(
        course
    )
    with pytest.raises(UserError, match=r"cannot be copied.*Nothing was written"):
        gradebook.copy(course.db_url, address.replace("/book", "/none"))


def test_the_command_of_the_page_copies_a_gradebook(tmp_path):
    page = (ROOT / "book" / "database.md").read_text(encoding="utf-8")
    code = re.search(r"python -c '(.*gradebook\.copy.*)'", page)[1]
    source, target = (
        Course(root=ROOT, output_folder=tmp_path, db=f"sqlite:///{tmp_path}/{name}.db")
        for name in ("source", "target")
    )
    gradebook.enroll(source, {"ada": {"first_name": "Ada"}})
    urls = iter((source.db_url, target.db_url))
    code = re.sub(r'"[a-z+]+://[^"]*"', lambda url: repr(next(urls)), code)
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert re.fullmatch(r"[1-9]\d* rows\n", result.stdout), result.stderr
    assert contents(target.db_url) == contents(source.db_url)


def test_the_ways_of_the_page_without_a_password_in_the_address(
    writer, server, tmp_path, monkeypatch
):
    writer.write("01-toy", "ada", outcome(3.0), None)
    name = writer.gradebook.engine.url.database
    passwords, services = tmp_path / ".pgpass", tmp_path / "services"
    quoted = SECRET.replace(":", "\\:")
    passwords.write_text(f"127.0.0.1:{server.port}:*:teacher:{quoted}\n")
    passwords.chmod(0o600)
    services.write_text(
        f"[grades]\nhost=127.0.0.1\nport={server.port}\nuser=teacher\ndbname={name}\n"
    )
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    address = f"postgresql+psycopg://teacher@127.0.0.1:{server.port}"
    for url in (f"{address}/{name}", "postgresql+psycopg:///?service=grades"):
        assert gradebook.rows(replace(writer.course, db=url))[0][0]["score"] == 3.0

    reach = f"--host=127.0.0.1 --port={server.port} --username=teacher"
    server.sql(f"CREATE DATABASE {name}_again OWNER teacher")
    for command in (f"pg_dump --format=custom --file=grades.dump {reach} {name}",
                    f"pg_restore {reach} --dbname={name}_again grades.dump"):  # fmt: skip
        program, *arguments = command.split()
        subprocess.run([server.programs / program, *arguments], cwd=tmp_path, check=True)
    again = replace(writer.course, db=f"{address}/{name}_again")
    assert gradebook.rows(again) == gradebook.rows(writer.course)


@pytest.fixture(scope="module")
def configured(isolated, server, tmp_path_factory):
    """A course whose nbgrader_config.py names a database; Ada's and Ben's submissions are
    graded.
    """
    server.sql("CREATE DATABASE configured OWNER teacher")
    address = server.url("configured", "teacher", SECRET)
    course = toy_course(
        tmp_path_factory.mktemp("configured"), f"\nc.CourseDirectory.db_url = {address!r}\n"
    )
    release(course, course.sources()[0])
    for student in ("ada", "ben"):
        hand_in(course.submitted, student, RIGHT, toy=course, change=proved)
    assert run(course, "grade").exit_code == 0
    return Course(root=course.root)


def proved(notebook):
    """Write something where the toy exercise asks for a proof."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "proof":
            cell.source = PROOF


def test_the_configuration_names_the_database_of_the_class_alone(configured, server, tmp_path):
    assert configured.db_url == server.url("configured", "teacher", SECRET)
    assert (
        SECRET not in repr(replace(configured, db=configured.db_url))
        and "staple" not in configured.database
    )
    assert set(scores(configured)) == {"ada", "ben"} and not configured.gradebook.exists()
    elsewhere = Course(root=configured.root, output_folder=tmp_path)
    assert elsewhere.db_url == f"sqlite:///{tmp_path}/gradebook.db" and not elsewhere.has_gradebook
    assert (
        configured.has_gradebook and configured.config.CourseDirectory.db_url == configured.db_url
    )
    output = run(configured, "grade", "--dry-run")
    assert output.exit_code == 0 and "Would grade 0 of 2" in output.output


@pytest.mark.slow
def test_nbgrader_commands_use_it(configured):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def nbgrader(*arguments):
        command = [sys.executable, "-m", "nbgrader", *map(str, arguments)]
        result = subprocess.run(
            command, cwd=configured.root, env=environment, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout + result.stderr

    before = scores(configured)
    nbgrader("autograde", "01-toy", "--student", "ada", "--force")
    assert scores(configured) == before
    nbgrader("generate_feedback", "01-toy", "--student", "ada", "--force")
    page = configured.paths_of("ada", "01-toy").page.read_text()
    assert f"<strong>{before['ada'][0]:g}</strong> of 9 points" in page
    nbgrader("db", "student", "add", "zoe", "--last-name", "Müller")
    assert "zoe (Müller, None)" in nbgrader("db", "student", "list")
    nbgrader("export", "--to", configured.root / "theirs.csv")
    with (configured.root / "theirs.csv").open(newline="") as file:
        scores_exported = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores_exported == {"ada": before["ada"][0], "ben": before["ben"][0], "zoe": 0.0}


@pytest.mark.slow
@pytest.mark.browser
def test_the_formgraders_pages_open_and_write_into_it(configured, page):
    with Gradebook(configured.db_url, configured.course_id) as book:
        number = book.find_submission_notebook("01-toy", "01-toy", "ben").id
    with jupyter(configured.root, "jupyter_server", FORMGRADER) as (site, token):
        page.goto(f"{site}login")
        page.locator("#password_input").fill(token)
        page.locator("#login_submit").click()
        for path, shown in (
            ("manage_assignments", "01-toy"),
            ("gradebook", "01-toy"),
            ("manage_students", "ben"),
        ):
            page.goto(f"{site}formgrader/{path}")
            page.get_by_text(shown, exact=False).first.wait_for()
        page.goto(f"{site}formgrader/gradebook/01-toy/01-toy")
        page.get_by_text("Submission #1").first.wait_for()
        page.goto(f"{site}formgrader/manage_students/ben")
        page.get_by_text("01-toy").first.wait_for()
        page.goto(f"{site}formgrader/submissions/{number}/?index=0")
        page.wait_for_function("formgrader.grades?.loaded && formgrader.comments?.loaded")
        with page.expect_response(
            lambda r: "/api/grade/" in r.url and r.request.method == "PUT"
        ) as put:
            page.locator("#proof").fill("2.5")
            page.keyboard.press("Tab")
        assert put.value.ok
    with Gradebook(configured.db_url, configured.course_id) as book:
        submission = book.find_submission("01-toy", "ben")
        assert submission.score == 8.5 and not submission.needs_manual_grade


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            "postgresql+psycopg://ada:a/b@c:d@host:5432/book",
            "postgresql+psycopg://ada:***@host:5432/book",
        ),
        ("postgresql+psycopg://ada@host:5432/book", "postgresql+psycopg://ada@host:5432/book"),
        ("postgresql+psycopg:///?service=grades", "postgresql+psycopg:///?service=grades"),
        (
            "x://a@h/b?password=s%20e&sslpassword=t&port=1",
            "x://a@h/b?password=***&sslpassword=***&port=1",
        ),
        ("ada:pass@word@host", "ada:***@host"),
        ("sqlite:////home/a@b:c/gradebook.db", "sqlite:////home/a@b:c/gradebook.db"),
    ],
)
def test_an_address_is_shown_without_a_password(address, shown):
    assert masked(address) == shown
    if "://" in address:
        assert masked(f"It is {address}, that one.") == f"It is {shown}, that one."


def test_the_server_asks_for_a_password(server):
    """Else no test here would notice a wrong one."""
    assert isinstance(server, Postgres) and "scram" in (server.data / "pg_hba.conf").read_text()

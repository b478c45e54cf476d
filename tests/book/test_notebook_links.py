"""Where notebooks open without an install: links on pages, the branch that they lead to, a
container to work in.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import yaml
from docutils import nodes

from autograder.authoring import published
from autograder.course.config import ROOT

ADDRESS = "https://github.com/owner/a-course"
COLAB = "https://colab.research.google.com/github/owner/a-course/blob/notebooks/"
BINDER = "https://mybinder.org/v2/gh/owner/a-course/notebooks?labpath="
PUBLISH = ROOT / ".github" / "workflows" / "publish.yml"
BINDERS = ROOT / ".binder" / "environment.yml"


@pytest.fixture(scope="module")
def extensions():
    """The extensions of the book that make the card and the line of a chapter's notebook."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "book" / "_ext"))
        import notebooks
        import theme

        yield theme, notebooks
    for name in ("theme", "notebooks", "notebook_links"):
        sys.modules.pop(name, None)


@pytest.fixture
def page(extensions, tmp_path):
    """A function that returns the card of exercise 1 and the line of chapter 1, of a book with
    this address.
    """
    theme, notebooks = extensions
    shutil.copytree(ROOT / "exercises" / "01-qkv", tmp_path / "exercises" / "01-qkv")

    def html_of(url):
        (tmp_path / published.CONFIG).write_text(f'repository:\n  url: "{url}"\n')
        seen = []
        app = SimpleNamespace(config=SimpleNamespace(language="en"))
        env = SimpleNamespace(
            srcdir=tmp_path, docname="book/01-qkv", note_dependency=seen.append, app=app
        )
        directive = SimpleNamespace(env=env, arguments=["01-qkv"], get_location=lambda: None)
        (card,) = theme.ExerciseDirective.run(directive)
        (line,) = notebooks.NotebookLink.run(directive)
        assert seen.count(str(tmp_path / published.CONFIG)) == 2, (
            "an address that changes is seen by the next build"
        )
        return card, line

    return html_of


def links(node):
    return [link["refuri"] for link in node.findall(nodes.reference) if "://" in link["refuri"]]


def test_without_an_address_no_page_leads_elsewhere(page):
    assert all(not links(node) and "Colab" not in node.astext() for node in page(""))


def test_with_an_address_the_card_and_the_line_open_in_both(page):
    card, line = page(ADDRESS)
    assert links(card) == [
        f"{COLAB}exercises/01-qkv/01-qkv.ipynb",
        f"{BINDER}exercises%2F01-qkv%2F01-qkv.ipynb",
    ]
    assert links(line) == [
        f"{COLAB}notebooks/01-qkv-chapter.ipynb",
        f"{BINDER}notebooks%2F01-qkv-chapter.ipynb",
    ]
    assert all(
        "abh-elsewhere" in link["classes"] for link in card.findall(nodes.reference) if links(link)
    )
    assert "download your notebook before you leave" in card.astext()


def test_the_built_book_leads_to_both_or_to_neither(html):
    """As this course has an address or not: see its `_config.yml`."""
    pages = [
        path for path in (html / "book").glob("*.html") if "abh-notebook" in path.read_text("utf8")
    ]
    assert len(pages) > 20
    expected = 1 if published.repository(ROOT) else 0
    for path in pages:
        text = path.read_text("utf8")
        assert len(re.findall(r'href="[^"]*colab[^"]*/notebooks/notebooks/', text)) == expected, (
            path
        )
        assert len(re.findall(r'href="[^"]*mybinder[^"]*=notebooks', text)) == expected, path


def git(*arguments, cwd):
    result = subprocess.run(
        ["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True
    )
    return result.stdout


@pytest.fixture
def publish(tmp_path):
    """A function that runs the step of the workflow in a checkout with these pages; it returns
    the branch, or "".
    """
    (job,) = yaml.safe_load(PUBLISH.read_text())["jobs"].values()
    (step,) = (step for step in job["steps"] if step.get("name") == "The branch of notebooks")
    checkout, origin = tmp_path / "checkout", tmp_path / "origin.git"
    git("init", "--quiet", "--bare", str(origin), cwd=tmp_path)
    git("init", "--quiet", str(checkout), cwd=tmp_path)
    git("remote", "add", "origin", str(origin), cwd=checkout)
    (checkout / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (checkout / "README.md").write_text("The course")
    shutil.copytree(ROOT / ".binder", checkout / ".binder")
    git("add", "--all", cwd=checkout)
    git(
        "-c",
        "user.name=x",
        "-c",
        "user.email=x",
        "commit",
        "--quiet",
        "-m",
        "The course",
        cwd=checkout,
    )
    shutil.copytree(ROOT / "exercises" / "01-qkv", checkout / "exercises" / "01-qkv")
    for name, text in {"book/01-qkv.html": "", "notebooks/01-qkv-chapter.ipynb": "{}"}.items():
        (checkout / "_build" / "html" / name).parent.mkdir(parents=True)
        (checkout / "_build" / "html" / name).write_text(text)

    def run(text):
        fresh = tmp_path / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(checkout, fresh)
        (fresh / "_build" / "html" / "book" / "01-qkv.html").write_text(text)
        environment = {**os.environ, **{name: str(value) for name, value in step["env"].items()}}
        command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
        result = subprocess.run(command, cwd=fresh, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return git(
            "for-each-ref", "--format=%(objectname)", "refs/heads/notebooks", cwd=origin
        ).strip()

    return SimpleNamespace(run=run, origin=origin)


def test_publishing_writes_the_branch_that_the_links_lead_to(publish, page):
    first = publish.run(f'<a href="{BINDER}">')
    names = git("ls-tree", "-r", "--name-only", "notebooks", cwd=publish.origin).split()
    for link in [link for node in page(ADDRESS) for link in links(node)]:
        assert unquote(link.removeprefix(COLAB).removeprefix(BINDER)) in names, link
    assert {
        ".binder/environment.yml",
        "exercises/01-qkv/checks.py",
        "exercises/01-qkv/checking.zip",
    } <= set(names)
    assert "README.md" not in names
    assert publish.run(f'<a href="{BINDER}">') == first, (
        "for the same files Binder builds nothing anew"
    )


def test_publishing_writes_no_branch_where_no_page_leads_to_one(publish):
    assert publish.run("<a>") == ""


def test_binder_installs_what_students_use():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    *listed, pip = yaml.safe_load(BINDERS.read_text())["dependencies"]
    here = ("ipykernel", "ipython", "jupyterlab")  # Binder has them
    wanted = {line for line in project["dependencies"] if not line.startswith(here)}
    assert {name.replace("pytorch-cpu", "torch") for name in listed} - {
        "python=3.11",
        "pip",
    } == wanted
    assert pip == {
        "pip": re.findall(r"^triton==[\d.]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    }


def test_the_container_has_what_ci_installs_and_names_what_there_is():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text())
    dockerfile = (folder / settings["build"]["dockerfile"]).read_text()
    packages = re.compile(r"apt-get install -y -qq --no-install-recommends \\\n\s+([a-z0-9 -]+)")
    assert (
        packages.search(dockerfile)[1].split()
        == packages.search((ROOT / ".ci" / "run").read_text())[1].split()
    )
    assert f"/bin/bash {settings['remoteUser']}\n" in dockerfile and settings["forwardPorts"] == [
        8000
    ]
    make, target = settings["postCreateCommand"].split()
    script = (ROOT / "course.py").read_text(encoding="utf8")
    assert (
        make == "make" and f'    "{target}": "' in script and 'PORT = "127.0.0.1", 8000\n' in script
    )

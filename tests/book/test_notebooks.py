"""Each chapter downloads as a notebook, which runs where the course is not."""

import builtins
import re
import symtable
import sys

import nbformat
import pytest
import records
import run_pages
from jupyter_cache.executors.utils import single_nb_execution

from autograder.course.config import ROOT

CHAPTERS = [
    path.stem
    for path in sorted((ROOT / "book").glob("*.md"))
    if "{notebook-link}" in path.read_text("utf8")
]


def file_of(name):
    """The notebook of a page; that of its exercise has the chapter's name alone."""
    return f"{name}.ipynb" if name.endswith("-deeper") else f"{name}-chapter.ipynb"


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_page_links_to_it_and_the_book_markup_is_not_in_it(html, name):
    assert f'<a href="../notebooks/{file_of(name)}" download>' in (
        html / "book" / f"{name}.html"
    ).read_text("utf8")
    notebook = nbformat.read(html / "notebooks" / f"{file_of(name)}", 4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert "figures" not in code and "measured(" not in code
    used = {
        name.split(".")[0]
        for name in re.findall(r"^\s*(?:import|from) ([\w.]+)", code, re.MULTILINE)
    }
    assert used - sys.stdlib_module_names <= {
        "numpy",
        "torch",
        "matplotlib",
        *(["triton"] if "11-" in name else []),
    }
    assert max(len(line) for line in code.splitlines()) <= 72
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "{math}" not in text and r"\class" not in text and r"\vv" not in text


@pytest.mark.long
@pytest.mark.parametrize("name", CHAPTERS)
def test_it_runs(html, name, tmp_path, monkeypatch):
    """Each cell runs, but for long experiments: tests/book/test_records.py makes them again, by the
    same code.
    """
    notebook = nbformat.read(html / "notebooks" / f"{file_of(name)}", 4)
    page = run_pages.read(ROOT / "book" / f"{name}.md")
    kept_names = {
        cell.source.strip(): records.as_run(page, name)[number]
        for number, cell in records.cells_of(page).items()
        if not {"remove-input", "remove-cell"} & records.tags(cell)
    }
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert kept_names.keys() <= {cell.source for cell in code}
    for cell in code:
        cell.source = kept_names.get(cell.source, cell.source)
    # of records alone: the notebook has nothing of the book's
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "book" / "tools"))
    result = single_nb_execution(notebook, cwd=str(tmp_path), timeout=1800, allow_errors=False)
    assert result.err is None, result.exc_string


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_name_is_the_notebooks_own(html, name):
    """An experiment reads nothing that only a hidden cell of the page binds."""
    cells = nbformat.read(html / "notebooks" / f"{file_of(name)}", 4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    table = symtable.symtable(code, name, "exec")
    bound = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    assert records.global_reads(code) - bound - set(dir(builtins)) == set()

"""Which pages run when the book is built: `book/tools/run_pages.py`."""

import os

import nbformat
import pytest
import run_pages


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("book/data/gpu.json", 'record = gpu_record.read("data/gpu.json")'),
        ("book/data/today.json", 'compared = json.loads(Path("data/today.json").read_text())'),
        ("book/13-today/models.toml", 'models = tomllib.loads(Path("13-today/models.toml").read_text())'),
        ("benchmarks/compiled.json", "rows = json.loads(Path('../benchmarks/compiled.json').read_text())"),
    ],
)  # fmt: skip
def test_a_page_has_changed_when_a_file_that_its_code_names_has(tmp_path, monkeypatch, file, code):
    monkeypatch.setattr(run_pages, "BOOK", tmp_path / "book")
    page, path = tmp_path / "book" / "page.md", tmp_path / file
    path.parent.mkdir(parents=True)
    page.parent.mkdir(exist_ok=True)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    digests = [run_pages.digest(page, notebook)]
    for text in ("1", "2"):
        path.write_text(text, encoding="utf8")
        digests.append(run_pages.digest(page, notebook))
    assert len(set(digests)) == 3


@pytest.mark.slow
def test_a_line_that_arrives_in_parts_is_one_line(tmp_path):
    """As on a busy machine, where the kernel sends what a cell has printed so far."""
    cell = nbformat.v4.new_code_cell('print("all", end=" ", flush=True)\nprint("is well")')
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook, _seconds, failure = run_pages.execute(tmp_path / "page.md", notebook)
    assert not failure
    assert [output.text for output in notebook.cells[0].outputs] == ["all is well\n"]


def _ends_at_one_page(page, notebook):
    """Be `execute`, in a process that ends at one of the pages."""
    if page.stem == "ends":
        os._exit(9)
    return notebook, 0.0, None


def test_a_page_that_ends_its_process_costs_no_other_page(tmp_path, monkeypatch):
    monkeypatch.setattr(run_pages, "execute", _ends_at_one_page)
    clock = nbformat.v4.new_code_cell("pass", metadata={"tags": ["clock"]})
    pages = {tmp_path / f"{name}.md": [] for name in ("a", "ends", "b", "c", "d")}
    pages[tmp_path / "with-a-clock.md"] = [clock]
    notebooks = {page: nbformat.v4.new_notebook(cells=cells) for page, cells in pages.items()}
    failures = {page.stem: failure for page, (*_, failure) in run_pages.executed(notebooks)}
    assert failures.keys() == {page.stem for page in pages}
    assert [name for name, failure in failures.items() if failure] == ["ends"]
    assert run_pages.ENDED in failures["ends"].message

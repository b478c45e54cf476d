"""The interactive figures in JupyterLab: the same widget, with a kernel behind it."""

import contextlib
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import TimeoutError, expect
from servers import jupyter

ROOT = Path(__file__).resolve().parent.parent
CELL = """import sys
sys.path.insert(0, {book!r})
from figures.qkv import TOKENS, W_k, W_q, W_v, X, QKVFigure
QKVFigure(TOKENS, X @ W_q, X @ W_k, X @ W_v)"""


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab that has a notebook with the figure open, and its token."""
    cell = nbformat.v4.new_code_cell(CELL.format(book=str(ROOT / "book")))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "figure.ipynb")
    with jupyter(tmp_path, "jupyterlab") as server:
        yield server


@pytest.mark.slow
@pytest.mark.browser
def test_the_figure_works_in_jupyterlab(lab, page):
    address, token = lab
    page.goto(f"{address}lab/tree/figure.ipynb?token={token}")
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click(timeout=60_000)
    sliders = page.locator(".jp-OutputArea input[type=range]")
    for _ in range(6):  # Lab drops a run that comes before its kernel is ready
        cell.click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(TimeoutError):
            sliders.first.wait_for(timeout=10_000)
            break
    result = page.locator(".jp-OutputArea .abh-result")
    expect(result).to_contain_text("z = (")
    before = result.inner_text()
    sliders.first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(result).not_to_have_text(before)
    expect(result).to_contain_text("z = (")

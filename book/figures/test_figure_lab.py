"""The interactive figures in JupyterLab: the same widgets, with a kernel behind them."""

import contextlib
import re

import nbformat
import pytest
from playwright.sync_api import TimeoutError, expect
from servers import jupyter

from figures import BOOK

# A figure is a module of Python and one of JavaScript, of one name.
FIGURES = sorted(path.stem for path in BOOK.glob("[0-9][0-9]-*/*.js"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that has a notebook for each figure, and its token."""
    folder = tmp_path_factory.mktemp("lab")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for name in FIGURES:
        code = (
            f"import sys\nsys.path.insert(0, {str(BOOK)!r})\nfrom figures import "
            f"{name}\n{name}.demo()"
        )
        cell = nbformat.v4.new_code_cell(code)
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
        nbformat.write(notebook, folder / f"{name}.ipynb")
    with jupyter(folder, "jupyterlab") as server:
        yield server


def answer(dialog):
    """Say yes to a dialog of Lab, or close one that asks nothing; a failing test shows what it
    said.
    """
    print("Lab asked:", dialog.inner_text())
    dialog.locator(".jp-Dialog-footer button").last.click()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(  # each opens Lab anew: one in `make test`, the others are long
    "name",
    [pytest.param(name, marks=() if name == "qkv" else pytest.mark.long) for name in FIGURES],
)
def test_the_figure_works_in_jupyterlab(lab, page, name):
    address, token = lab
    # Lab asks now and then, on a busy machine: which kernel, or whether to go on without the
    # server.
    page.add_locator_handler(page.locator(".jp-Dialog"), answer)
    # without the tabs of the test before
    page.goto(f"{address}lab/tree/{name}.ipynb?reset&token={token}")
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click(timeout=60_000)
    figure = page.locator(".jp-OutputArea .abh-figure")
    runs = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").filter(
        has_text=re.compile(r"\[[*\d]+\]")
    )
    # Lab drops a run that comes before its kernel is ready; a run too many clears what it shows
    for _ in range(6):
        cell.click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(TimeoutError):
            runs.wait_for(timeout=10_000)
            break
    # The summary is the last that is written; some figures train a model before.
    expect(figure.locator(".abh-summary").first).not_to_be_empty(timeout=180_000)
    before = figure.text_content()
    expect(figure).to_have_text(before)
    moved = figure.locator("input[type=range], .abh-handle")
    if moved.count():
        moved.first.focus()
        for _ in range(5):
            page.keyboard.press("ArrowLeft")
    else:  # a figure that has neither has a choice
        figure.locator("input[type=radio]").first.focus()
        page.keyboard.press("ArrowRight")
    expect(figure).not_to_have_text(before)

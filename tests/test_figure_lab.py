"""The interactive figures in JupyterLab: the same widgets, with a kernel behind them."""

import contextlib
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import TimeoutError, expect
from servers import jupyter

ROOT = Path(__file__).resolve().parent.parent
# One cell for each figure, and what must change on the screen when its first slider or handle is moved.
CELLS = {
    "qkv": (
        "from figures.qkv import W_k, W_q, W_v, WORDS, X, QKVFigure\nQKVFigure(WORDS, X, W_q, W_k, W_v, step=4)",
        ".abh-qkv tfoot .abh-c-part",
    ),
    "scaling": ("from figures.scaling import K, Q, ScalingFigure\nScalingFigure(Q, K)", ".abh-scaling dd"),
    "softmax": (
        "from figures.softmax import GRADES, SCORES, WORDS, SoftmaxFigure\n"
        "SoftmaxFigure(WORDS, SCORES, GRADES, step=4)",
        ".abh-softmax tbody .abh-c-gradient",
    ),
    "position": (
        "from figures.position import W_k, W_q, W_v, WORDS, X, PositionFigure\n"
        "PositionFigure(WORDS, X, W_q, W_k, W_v, encoding=1, start=10)",
        ".abh-position .abh-gap",
    ),
    "masking": (
        "from figures.masking import MaskingFigure\nMaskingFigure(machine=True)",
        ".abh-masking .abh-slider output",
    ),
    "multihead": (
        "from figures.multihead import MultiHeadFigure, train\nMultiHeadFigure([train(2, steps=2)])",
        ".abh-multihead .abh-rows",
    ),
    "transformer": (
        "from figures.transformer import TransformerFigure, train\nTransformerFigure(train(2), step=3)",
        ".abh-transformer .abh-slider output",
    ),
    "heads": (
        "from figures.heads import HeadsFigure, cuts, train\nmodel = train(steps=2)\n"
        "HeadsFigure(model, cuts(model, windows=5))",
        ".abh-heads .abh-rows",
    ),
    "complexity": (
        "from figures.complexity import ComplexityFigure, here\nComplexityFigure([here(64, 1), None])",
        ".abh-complexity .abh-slider output",
    ),
    "efficient": (
        "from figures.efficient import EfficientFigure, train\nEfficientFigure(train(steps=2))",
        ".abh-efficient .abh-slider output",
    ),
    "beyond": (
        "from figures.beyond import BeyondFigure, train\nBeyondFigure(train(steps=2))",
        ".abh-beyond .abh-four",
    ),
    "gpu": (
        "from figures.gpu import START, TilesFigure\nTilesFigure(state=START | {'step': 9})",
        ".abh-gpu .abh-slider output",
    ),
}
# What is moved: a slider or a handle; where a figure has neither, a choice.
CONTROLS = (
    ":is(input[type=range], .abh-handle, .abh-cards input, .abh-heads .abh-words input, .abh-beyond .abh-words input)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that has a notebook for each figure, and its token."""
    folder = tmp_path_factory.mktemp("lab")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for name, (code, _changes) in CELLS.items():
        cell = nbformat.v4.new_code_cell(f"import sys\nsys.path.insert(0, {str(ROOT / 'book')!r})\n{code}")
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
        nbformat.write(notebook, folder / f"{name}.ipynb")
    with jupyter(folder, "jupyterlab") as server:
        yield server


def answer(dialog):
    """Say yes to a dialog of Lab, or close one that asks nothing; a failing test shows what it said."""
    print("Lab asked:", dialog.inner_text())
    dialog.locator(".jp-Dialog-footer button").last.click()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(  # each opens Lab anew: the first in every run, the others in the sweeps
    "name", [pytest.param(name, marks=pytest.mark.sweep if place else ()) for place, name in enumerate(CELLS)]
)
def test_the_figure_works_in_jupyterlab(lab, page, name):
    address, token = lab
    # Lab asks now and then, on a busy machine: which kernel, or whether to go on without the server.
    page.add_locator_handler(page.locator(".jp-Dialog"), answer)
    page.goto(f"{address}lab/tree/{name}.ipynb?reset&token={token}")  # without the tabs of the test before
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click(timeout=60_000)
    controls = page.locator(f".jp-OutputArea .abh-figure {CONTROLS}")
    for _ in range(6):  # Lab drops a run that comes before its kernel is ready
        cell.click()
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(TimeoutError):
            controls.first.wait_for(timeout=10_000)
            break
    changes = page.locator(f".jp-OutputArea {CELLS[name][1]}").first
    expect(changes).not_to_be_empty()
    before = changes.inner_text()
    controls.first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(changes).not_to_have_text(before)
    expect(changes).not_to_be_empty()

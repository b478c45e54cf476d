"""The interactive figures in JupyterLab: the same widget, with a kernel behind it."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError, expect

ROOT = Path(__file__).resolve().parent.parent
CELL = """import sys
sys.path.insert(0, {book!r})
from figures.qkv import TOKENS, W_k, W_q, W_v, X, QKVFigure
QKVFigure(TOKENS, X @ W_q, X @ W_k, X @ W_v)"""


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab that has a notebook with the figure open, and its token."""
    import nbformat

    cell = nbformat.v4.new_code_cell(CELL.format(book=str(ROOT / "book")))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "figure.ipynb")
    token = secrets.token_hex(16)
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0"]
    command += [f"--IdentityProvider.token={token}", "--ServerApp.root_dir=" + str(tmp_path), "--allow-root"]
    with (tmp_path / "lab.log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        yield _address(tmp_path / "runtime", process), token
    finally:
        process.terminate()
        process.wait(timeout=30)


def _address(runtime, process, seconds=60):
    """Wait until the server answers, and return its address."""
    for _ in range(seconds * 4):
        time.sleep(0.25)
        assert process.poll() is None, "JupyterLab ended"
        for path in runtime.glob("jpserver-*.json"):
            try:
                address = json.loads(path.read_text())["url"]
                urllib.request.urlopen(address + "api", timeout=2)
                return address
            except (OSError, ValueError):
                continue
    raise AssertionError("JupyterLab did not start")


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

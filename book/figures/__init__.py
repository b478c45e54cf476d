"""The book's figures: here is what they share, and each chapter's folder has its own.

from figures import drawing, masking  # book/figures/drawing.py, book/05-masking/masking.py
"""

import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent.parent
# Python looks for a figure here first, and then in the chapters' folders.
__path__ += map(str, sorted(BOOK.glob("[0-9][0-9]-*/")))
# Figures take numbers from `records`, and their JavaScript from `javascript`.
sys.path.append(str(BOOK / "tools"))


def find(name):
    """Return the path of a file of the figures, such as masking.css.

    Raises
    ------
    FileNotFoundError
        If it is neither here nor in a chapter's folder.
    """
    for folder in __path__:
        path = Path(folder) / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is neither in book/figures/ nor in a chapter's folder")

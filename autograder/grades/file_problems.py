"""Sentences about a file that was submitted and cannot be graded."""

MISSING = "There is no {name} in the folder."
SEVERAL = (
    "There is no {name} in the folder, but more than one other notebook: {found}. Submit one of "
    "them under that name."
)
PACKED = (
    "There is no {name} in the folder, but {found}. Unpack it, and submit the notebook that "
    "is in it."
)
OTHERS = (
    "There is no {name} in the folder, but {found}. Submit the notebook itself, a file that "
    "ends in .ipynb."
)
OTHER_ENCODING = (
    "{name} is not UTF-8 text: it is saved in another encoding, such as Latin-1. "
    "Open it in an editor, save it as UTF-8, and submit it again."
)
CONFLICT = (
    "{name} has Git's merge conflict markers, the first in line {line}: `{mark}`. "
    "Keep one side of each conflict, delete the lines with markers, and submit it again."
)
HTML = (
    "{name} is a web page (HTML), not the notebook. "
    "Save the notebook itself from Jupyter (File, Download), and submit it again."
)
ZIP = "{name} is a zip archive, not a notebook. Unpack it, and submit the notebook that is in it."
OTHER_FILE = (
    "{name} is {kind}, not a notebook. Submit the notebook itself, a file that ends in .ipynb."
)
OF_ANOTHER = "{name} is the notebook of {other}. Hand in that of {exercise} under this name."
SAY_HOW = (OTHER_ENCODING, CONFLICT, HTML, ZIP, OTHER_FILE, OF_ANOTHER, SEVERAL, PACKED, OTHERS)
"""The sentences that also say what to do about it."""

"""A start and an end without what takes seconds and is of no use.

For programs of our own alone: it reaches into jsonschema.
"""

import atexit
import gc
import sys


def begin() -> None:
    """Search seldom for garbage, of which a start has none, and not at the end, when all goes
    anyway.

    And let jsonschema do without a grammar of addresses. It compiles that grammar when it is
    imported, does without where it is not there, and no notebook has such an address to check.

    `check` computes for 0.8 seconds so: without the first for 1.0, without the second for 1.5,
    without both for 1.9.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)  # with torch loaded, the last searches take half a second
    # None lets an import of it fail, as if it were not installed.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

"""A start without what takes seconds and is never used. For programs of our own alone: it reaches into jsonschema."""

import gc
import sys


def begin() -> None:
    """Search seldom for garbage, of which a start has none; and let jsonschema do without a grammar of addresses.

    It compiles that grammar when it is imported, does without where it is not there, and no notebook has such an
    address to check.
    """
    gc.set_threshold(50_000, 20, 20)
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

"""The engine: releases, checks, grades and reports exercises. It knows nothing of attention."""

import sys

# jsonschema compiles a grammar of web addresses when it is imported, which takes longer than all else here; it does
# without where the grammar is not there, and no notebook has such an address to check.
sys.modules.setdefault("rfc3987_syntax", None)

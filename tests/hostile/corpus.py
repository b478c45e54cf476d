"""All cases of the corpus, in the order of their groups."""

from hostile import denying, forging, honest, leaking, malformed

GROUPS = {
    "forging": forging.CASES,
    "leaking": leaking.CASES,
    "denying": denying.CASES,
    "malformed": malformed.CASES,
    "honest": honest.CASES,
}
CASES = [case for cases in GROUPS.values() for case in cases]

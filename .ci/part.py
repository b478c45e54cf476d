"""A pytest plugin that runs one part of the tests, so that CI runs all of them in turns.

    PYTHONPATH=.ci python -m pytest -p part --part 3/12 -m "long and slow"

Tests of one module with the same parameters stay together: they share fixtures.
"""

import hashlib

import pytest


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption(
        "--part", default="0/1", metavar="K/N", help="run part K of N, with K from 0 to N - 1"
    )


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config, items):
    """Deselect the tests of the other parts."""
    part, parts = map(int, config.getoption("part").split("/"))
    of_part = [item for item in items if part_of(item, parts) == part]
    others = [item for item in items if part_of(item, parts) != part]
    config.hook.pytest_deselected(items=others)
    items[:] = of_part


def part_of(item, parts):
    """Return the number of the part that a test belongs to."""
    parameters = item.callspec.id if hasattr(item, "callspec") else ""
    # By a digest, not by place: a new test moves no other one to another part.
    file = item.nodeid.partition("::")[0]
    digest = hashlib.sha256(f"{file} {parameters}".encode()).digest()
    return int.from_bytes(digest) % parts

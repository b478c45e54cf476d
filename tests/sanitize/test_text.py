"""The border for text: whatever comes in, what goes out acts nowhere, and has a bound."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autograder.sanitize import text

# Any code point, halves of letters too, and more often those that act in a terminal or turn a line
# around.
ODD = "\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\u061c\u200e\u200f\u202a\u202e\u2028\u2066\u2069\ud800\udcff\udfff%=+-@"
ANY = st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from(ODD)))
ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
SECONDS = 5


@given(ANY)
@example("\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07")
def test_a_block_never_acts(raw):
    assert not ACTS.search(text.block(raw))


@given(ANY, st.integers(0, 50))
def test_a_line_is_one_line_that_never_acts_and_has_a_bound(raw, most):
    line = text.line(raw, most)
    assert not ACTS.search(line) and "\n" not in line and "\t" not in line
    assert len(line) <= most + len(" …")


@given(ANY)
def test_cleaning_twice_is_cleaning_once(raw):
    assert text.block(text.block(raw)) == text.block(raw)
    assert text.line(text.line(raw)) == text.line(raw)


@given(ANY)
def test_what_is_printed_keeps_its_colours_and_acts_no_more(raw):
    shown = text.printed(f"\x1b[1;31m{raw}\x1b[0m\r")
    assert shown.startswith("\x1b[1;31m") and shown.endswith("\x1b[0m\r")
    assert not ACTS.search(re.sub(r"\x1b\[[0-9;]*m|\r", "", shown))


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf"))))
def test_plain_text_stays_as_it_is(raw):
    assert text.block(raw) == text.name(raw) == text.printed(raw) == raw


def test_windows_lines_are_lines_and_colours_leave_nothing():
    assert text.block("a\r\nb\rc\x1b[31m red\x1b[0m") == "a\nb\nc red"


def test_long_words_are_cut_and_long_blocks_too():
    assert text.line("x" * 1_000) == "x" * text.MOST_WORD + "…"
    assert len(text.block("x" * 1_000_000)) == text.MOST_BLOCK + 2


@pytest.mark.parametrize(
    "piece", ["\x1b", "\x1b[", "\x1b[1", "\x1b[1;31m", "x", "\u202e", "\ud800", " \n"]
)
def test_cleaning_takes_no_longer_than_its_text(piece):
    began = time.process_time()
    for clean in (text.block, text.line, text.printed):
        clean(piece * 1_000_000)
    text.name(piece * 10_000)
    assert time.process_time() - began < SECONDS


@given(ANY)
def test_a_name_is_text_that_acts_nowhere(raw):
    assert not ACTS.search(text.name(raw)) and "\n" not in text.name(raw)


@given(st.binary())
def test_a_name_of_any_bytes_is_text_and_says_which_bytes(raw):
    """Names on disk are bytes; Python gives those that are no UTF-8 as halves of letters."""
    shown = text.name(raw.decode("utf-8", "surrogateescape"))
    assert not ACTS.search(shown)
    if b"%" not in raw:
        back = re.sub(
            rb"%([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), shown.encode()
        )
        assert back == raw


@given(st.one_of(ANY, st.integers(), st.floats(), st.none()))
@example("=cmd|' /C calc'!A0")
@example("@SUM(1)")
def test_no_cell_of_a_table_is_a_formula(value):
    cell = text.cell_of_table(value)
    assert not str(cell).startswith(("=", "+", "@", "\t", "\r")) and (
        cell == value or cell == f"'{value}" or value != value
    )
    assert not isinstance(cell, str) or not cell.startswith("-")

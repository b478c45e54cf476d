"""The Chinese edition says what the English one says: catalogues, terms, signs; and its pages work in a browser."""

import json
import re
import sys
from collections import Counter
from urllib.parse import quote

import pytest
from babel.messages.pofile import read_po
from bs4 import BeautifulSoup
from conftest import ROOT
from test_book import AXE, broken_rules, visit, watch

sys.path.insert(0, str(ROOT / "book"))

import editions  # noqa: E402
import translations  # noqa: E402

LANGUAGE = "zh_CN"
CATALOGUES = sorted(editions.messages(LANGUAGE).rglob("*.po"))
NAMES = [path.relative_to(editions.messages(LANGUAGE)).with_suffix("").as_posix() for path in CATALOGUES]
PAGES = sorted(page.removeprefix("book/") for page in editions.pages(LANGUAGE))
HAN = "\u3007\u3400-\u9fff"
FORMULA = re.compile(r"\$\$?[^$]+\$\$?|\{math\}`[^`]*`")
CODE = re.compile(r"(?<![`}])(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)")
ROLE = re.compile(r"(?<!`)\{(?!math\})[\w:-]+\}`[^`]*`")
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
PLACE = re.compile(r"\{\w+\}|%\.?\d*[dfgsr]|%\(\w+\)s")
NUMBER = re.compile(r"(?<![A-Za-z\d.])[−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def translated(path):
    """The messages of a catalogue that are translated, as pairs; of those that count, the last form."""
    with path.open("rb") as file:
        for message in read_po(file, LANGUAGE):
            if message.id and translations.is_done(message):
                yield translations.forms(message.id)[-1], translations.forms(message.string)[-1]


def kept(text):
    """What a translation has to have as often as the English: formulas, code, roles, targets, places for values, numbers."""
    if translations.is_formula(text):
        return Counter([re.sub(r"\\text\{[^}]*\}|\s+|[.。]", "", text)])
    found = Counter()
    for pattern in (FORMULA, ROLE, CODE, LINK, PLACE, NUMBER):
        for part in pattern.finditer(text):
            said = part[0]
            if pattern is ROLE:  # {doc}`text <target>`: the target
                said = re.sub(r"`.*<(.*)>`", r"`\1`", said)
            elif pattern is LINK:
                said = part[1]
            elif pattern is FORMULA:
                said = re.sub(r"\\text\{[^}]*\}|\s+", "", said)
            found[said.replace("-", "−") if pattern is NUMBER else said] += 1
        text = pattern.sub(" ", text)
    return found


def differences(english, said):
    """What a translation lacks and has beside the English; a heading that is a link as a whole says so only there."""
    lacks, has = kept(english) - kept(said), kept(said) - kept(english)
    if re.fullmatch(r"\d+ [^$`]*", english) and re.fullmatch(r"\[.*\]\(.*\)", said):
        has.clear()
    return {"lacks": dict(lacks), "has": dict(has)} if lacks or has else {}


@pytest.mark.parametrize("path", CATALOGUES, ids=NAMES)
def test_formulas_code_links_and_numbers_are_kept(path):
    found = {english[:70]: differences(english, said) for english, said in translated(path)}
    assert not {english: different for english, different in found.items() if different}

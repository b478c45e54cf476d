"""Words that cells computed for a sentence, in another language."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import values

SAID = {
    "head {head} of layer {layer}": "第 {layer} 层的头 {head}",
    "{first} and {second}": "{first} 和{second}",
    "between {short} and {long} tokens": "{short} 到 {long} 个词元之间",
    "{count} seconds": "{count} 秒",
}


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("head 4 of layer 2", "第 2 层的头 4"),
        ("head 4 of layer 2 and head 1 of layer 1", "第 2 层的头 4 和第 1 层的头 1"),
        ("between 1,256 and 2,048 tokens", "1,256 到 2,048 个词元之间"),
        ("1.5 seconds", "1.5 秒"),
        ("two seconds", "two seconds"),
        ("AMD EPYC, float32", "AMD EPYC, float32"),
        ("12.5", "12.5"),
    ],
)
def test_words_of_cells_are_put_into_the_editions_language(monkeypatch, english, other):
    monkeypatch.setattr(values, "_", lambda form: SAID.get(form, form))
    assert values.translated(english) == other


def test_without_a_translation_they_stay():
    assert all(values.translated(form) == form for form in values.FORMS)
    assert values.translated("head 4 of layer 2") == "head 4 of layer 2"

"""Search in Chinese, which has no spaces between words.

The index has the words that jieba finds; in the browser a query is taken apart by the words of the
index. Other names of a thing, the `[aliases]` of terms.toml, find what its own name does.
"""

import functools
import json
import logging
import re
import sys
import warnings
from pathlib import Path

BOOK = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BOOK / "tools"))

import editions  # noqa: E402

with warnings.catch_warnings():  # of jieba's, about how it finds its dictionary
    warnings.simplefilter("ignore")
    import jieba
    from sphinx.search import zh

ALIASES = editions.terms("zh_CN", "aliases")
HAN = re.compile(r"[\u4e00-\u9fff]+")


class ChineseSearch(zh.SearchChinese):
    """Sphinx's search in Chinese, with the course's terms, those of one letter too; queries are
    taken apart.
    """

    js_splitter_code = f"const ALIASES = {json.dumps(ALIASES, ensure_ascii=False)};\n" + (
        BOOK / "_static" / "splitting.js"
    ).read_text(encoding="utf8")

    def init(self, options):
        """Teach jieba the terms."""
        super().init(options)
        jieba.setLogLevel(logging.WARNING)
        names = [*editions.terms("zh_CN").values(), *ALIASES.values()]
        self.terms = {term for term in names if HAN.fullmatch(term)}
        for term in sorted(self.terms):
            jieba.add_word(term)

    def split(self, input):
        """Return the words of a text: of Chinese also the short ones within long ones."""
        return list(
            filter(HAN.fullmatch, jieba.cut_for_search(input))
        ) + self.latin1_letters.findall(input)

    def word_filter(self, stemmed_word):
        """Tell whether a word is in the index."""
        return super().word_filter(stemmed_word) or stemmed_word in self.terms

    @functools.cache  # noqa: B019 (there is one for each build)
    def stem(self, word):
        """Return a word without its ending; a short one as it is."""
        stemmed = self.stemmer.stemWord(word.lower())
        return word.lower() if len(stemmed) < 3 <= len(word) else stemmed


def setup(app):
    """Register it."""
    app.add_search_language(ChineseSearch)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

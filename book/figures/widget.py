"""What the interactive figures have in common: one module of JavaScript, one style, words that
can be translated.
"""

import anywidget
import javascript
import traitlets

from figures import find

TEXT = {"comma": ", ", "span": "{first} to {last}"}
"""The words that any figure may use."""


def script(name):
    """The module of a figure, with what it imports of `common/` in it."""
    return javascript.bundle(find(f"{name}.js"))


def style(name):
    """The style of a figure: `common/common.css`, then the figure's own file."""
    shared = find("common/common.css").read_text(encoding="utf8")
    return shared + "\n" + find(f"{name}.css").read_text(encoding="utf8")


class Figure(anywidget.AnyWidget):
    """A figure that computes in JavaScript, so that it answers in a page without a kernel.

    A figure's own class sets `_esm = script(name)` and `_css = style(name)`, and adds its data as
    synced traits.

    Args:
        words: the figure's words, by the keys of the dictionary `TEXT` beside its class. Those
        above are added. text: other words for some of the keys.
    """

    text = traitlets.Dict().tag(sync=True)

    def __init__(self, words, text=None, **data):
        super().__init__(text={**TEXT, **words, **(text or {})}, **data)

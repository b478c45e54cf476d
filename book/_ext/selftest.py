"""Questions a reader asks themselves at the end of a chapter.

    ````{selftest}
    What does each row of weights sum to?

    ```{answer} right
    To 1.

    Softmax divides by the sum.
    ```
    ```{answer}
    To the number of keys.

    That would be so if each weight were 1.
    ```
    ````

The first paragraph of an answer is the answer; the rest explains it. An answer is a native
<details>, so it opens with a click, a tap or a key and without a script; `_static/selftest.js` adds
marks, one open at a time, and a count.
"""

from docutils import nodes
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
_ = get_translation("extensions")


class answer_details(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """One answer: an `answer_summary`, then the explanation."""


class answer_summary(nodes.General, nodes.TextElement):  # noqa: N801
    """The answer itself, always visible."""


class SelftestDirective(SphinxDirective):
    """One question, its answers, and an explanation of each."""

    has_content = True

    def run(self):
        number = self.env.new_serialno("selftest") + 1
        box = nodes.container(classes=["abh-selftest"], ids=[f"self-test-{number}"])
        box += nodes.paragraph(
            "", _("Question %d") % number, classes=["abh-kicker"], translatable=False
        )
        self.state.nested_parse(self.content, self.content_offset, box)
        answers = list(box.findall(answer_details))
        if len(answers) < 2 or sum(a["right"] for a in answers) != 1:
            logger.warning(
                "a selftest has two answers or more, one of them right; this one has %d, %d right",
                len(answers),
                sum(a["right"] for a in answers),
                location=self.get_location(),
                type="selftest",
            )
        return [box]


class AnswerDirective(SphinxDirective):
    """An answer; the argument `right` marks the right one."""

    optional_arguments = 1
    has_content = True

    def run(self):
        right = self.arguments == ["right"]
        parsed = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, parsed)
        if (
            len(parsed) < 2
            or not isinstance(parsed[0], nodes.paragraph)
            or self.arguments not in ([], ["right"])
        ):
            logger.warning(
                "an answer is one paragraph and then its explanation; its argument is `right` or "
                "none",
                location=self.get_location(),
                type="selftest",
            )
            return []
        details = answer_details(right=right)
        first, *explanation = parsed.children
        summary = answer_summary()
        # The paragraph itself stays (it is what gets translated); the theme's CSS shows it in line.
        summary += first
        mark = nodes.strong("", _("Right.") if right else _("Not this one."))
        lead = nodes.paragraph("", "", mark, classes=["abh-answer-mark"], translatable=False)
        details += [summary, lead, *explanation]
        return [details]


def visit_details(self, node):
    kind = "right" if node["right"] else "wrong"
    self.body.append(f'<details class="abh-answer" data-answer="{kind}">\n')


def depart_details(self, node):
    self.body.append("</details>\n")


def visit_summary(self, node):
    self.body.append("<summary>")


def depart_summary(self, node):
    self.body.append("</summary>\n")


def setup(app):
    app.add_node(answer_details, html=(visit_details, depart_details))
    app.add_node(answer_summary, html=(visit_summary, depart_summary))
    app.add_directive("selftest", SelftestDirective)
    app.add_directive("answer", AnswerDirective)
    app.add_js_file("selftest.js", loading_method="defer")
    app.add_css_file("selftest.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""HTML and Markdown of students that would act on a page, or take forever to read."""

from autograder.course.limits import Limits

LIMITS = Limits(output_kb=40, picture_kb=20)
# Each would run, be fetched, or cover the page, and must not; the word stands where it would.
ACTING = {
    "script": "<script>hostile_mark()</script>",
    "handler": '<img src="x" onerror="hostile_mark()">',
    "handler inside a title": '<b title="<img src=x onerror=hostile_mark()>">x</b>',
    "handler behind a quote": '<b title="x" \'><img src=x onerror=hostile_mark()>\'">x</b>',
    "javascript link": '<a href="javascript:hostile_mark()">x</a>',
    "javascript link with a control character": '<a href="\x01java\nscript:hostile_mark()">x</a>',
    "backslash host": '<img src="/\\hostile_mark">',
    "control character before a host": '<img src="\x01//hostile_mark">',
    "protocol-relative host": '<img src="//hostile_mark/x.png">',
    "plain host": '<img src="https://hostile_mark/x.png">',
    "set of sources": '<img srcset="https://hostile_mark/x.png 1x">',
    "document as data": '<a href="data:text/html,<script>hostile_mark()</script>">x</a>',
    "background": '<p style="background:url(//hostile_mark)">x</p>',
    "background colour": '<p style="background-color:url(//hostile_mark)">x</p>',
    "escaped url": '<p style="color:\\75rl(//hostile_mark)">x</p>',
    "expression": '<p style="width:expression(hostile_mark())">x</p>',
    "import": "<style>@import url(//hostile_mark)</style>",
    "overlay": '<div style="position:fixed;top:0;left:0;width:100%">hostile_mark</div>',
    "overlay by class": '<div class="navbar-fixed-top modal">hostile_mark</div>',
    "overlay by margin": '<div style="margin:-500px 0 0 0">hostile_mark</div>',
    "anchor taken": '<h1 id="check_add">hostile_mark</h1><a name="check_add">x</a>',
    "frame": '<iframe srcdoc="<script>hostile_mark()</script>"></iframe>',
    "form": '<form action="//hostile_mark"><input name="x" type="submit"></form>',
    "base": '<base href="//hostile_mark">',
    "meta": '<meta http-equiv="refresh" content="0;url=//hostile_mark">',
    "link": '<link rel="stylesheet" href="//hostile_mark">',
    "svg": "<svg><style><img src=x onerror=hostile_mark()></style></svg>",
    "math": "<math><mtext><table><mglyph><style><img src=x "
    "onerror=hostile_mark()></style></table></math>",
    "comment": "<!--><img src=x onerror=hostile_mark()>-->",
    "cdata": "<![CDATA[><img src=x onerror=hostile_mark()>]]>",
    "noscript": '<noscript><p title="</noscript><img src=x onerror=hostile_mark()>"></noscript>',
    "textarea": "<textarea></textarea><script>hostile_mark()</script>",
}
ONLY_IN_MARKDOWN = {
    "mermaid": "```mermaid\n<script>hostile_mark()</script>\n```",
    "javascript in a link": "[x](javascript:hostile_mark())",
    "javascript in a reference": "[x][y]\n\n[y]: javascript:hostile_mark()",
    "javascript in an address": "<javascript:hostile_mark()>",
    "picture from elsewhere": "![x](https://hostile_mark/x.png)",
    "picture by reference": "![x][y]\n\n[y]: //hostile_mark/x.png",
    "script in a formula": "$$<script>hostile_mark()</script>$$ and $<img src=x "
    "onerror=hostile_mark()>$",
    "script in a heading": "# <script>hostile_mark()</script>",
    "script in a table": "| a |\n|---|\n| <img src=x onerror=hostile_mark()> |",
    "title of a link": '[x](https://a.b "\\"><img src=x onerror=hostile_mark()>")',
}
SLOW = {
    "280 KB": "word *a* `b` $c$ <b>d</b>\n" * 11_000,
    "dollars": "$" * 200_000,
    "environments": "\\begin{a}" * 20_000,
    "brackets": "[" * 200_000,
    "quotes": "> " * 50_000,
    "quotes and lists": "> - " * 20_000,
    "nested lists": "\n".join(" " * (2 * n) + "- a" for n in range(400)),
    "tags": "<div>" * 30_000,
    "formatting": "<p>"
    + "".join(f"<b title={n}>" for n in range(3000))
    + "</p>"
    + "<p>x</p>" * 10_000,
    "comments": "<!--" * 50_000,
    "style": '<p style="color:' + "(" * 1000 + '">x',
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(20_000)) + ">x",
    "stars": "*a_" * 60_000,
    "backticks": "".join("`" * (n % 300) + "a" for n in range(1300)),
    "entities": "&" * 200_000,
}
SECONDS = 5
"""More than ten times what each takes: a machine may be busy with other things."""

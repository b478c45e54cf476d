"""The exercises in other languages: the English texts for the catalogs, and the notebooks made
with these.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import nbformat
from jinja2 import Environment
from jinja2.ext import extract_from_ast
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbgrader.utils import compute_checksum

from autograder.authoring import loader, packages, regrade, source
from autograder.authoring.sentences import COUNTED, TRANSLATED
from autograder.checking import words
from autograder.checking.answers import FAMILIES, STRETCHED, STRETCHED_HINT, answers_in
from autograder.checking.report import Status
from autograder.course.catalogs import ENGINE, EXERCISES, FEEDBACK, GRADER, SHARED, Text
from autograder.course.cells import (
    Notebook,
    is_code,
    is_graded,
    is_locked,
    is_skipped,
    with_language,
)
from autograder.course.config import Exercise
from autograder.grades import report
from autograder.grades.results import Kind

PACKAGE = Path(__file__).parent.parent
CALLS = (*TRANSLATED, "Notice")
"""Functions whose first argument is a text to translate; a `Notice` is what `watch` publishes."""
NOT_SHOWN = (
    "authoring",
    "commands",
    "grades/changes.py",
    "grades/report.py",
    "grading/executors.py",
    "school",
)
"""The parts of the engine whose texts students never see, but for `CHECK`."""
CHECK = "commands/student.py"
GRADERS = (
    "commands/grade.py",
    "commands/instructor.py",
    "grades/changes.py",
    "grades/report.py",
)
"""The parts whose texts graders read in their own language; they also read what students do."""
PASSED_OVER = re.compile(r"Error$|^Suite$|^StandardChecks$|^compile$")
"""Functions whose texts are not part of feedback, or are found in another way."""
NOTEBOOK = "NOTEBOOK.ipynb"
"""Replaces the notebook's own name in a text, so that all exercises share the sentence."""

_WORD = re.compile(r"[^\W\d_]{2}")
_CODE = re.compile(r"`[^`]*`")
_NO_WORDS = re.compile(r"\$.*?\$|`[^`]*`|<[^>]*>|\{\w+\}|https?://\S+", re.DOTALL)
_PLACE, _SPACE = re.compile(r"\{\w+\}"), re.compile(" ")
_JOINED = re.compile(r"\{\w+\}(.*\{\w+\}|[.:])", re.DOTALL)
_FORMULA_WORDS = re.compile(r"(?<!_)(?<!_\{)\\text\{[^}]*[a-z]{2}")
_SUMMARY = re.compile(r"(?<=<summary>).*?(?=</summary>)")


def has_words(text: str) -> bool:
    """Tell whether a text has something to translate: words outside of formulas and code, or
    joined values.
    """
    return bool(_WORD.search(_NO_WORDS.sub(" ", text)) or _JOINED.search(_CODE.sub("", text)))


# The text cells of notebooks.


def with_texts(markdown: str, change: Callable[[str], str]) -> str:
    """Return Markdown with `change` applied to each paragraph, heading, list item and table cell.

    `change` gets each as one line, and display formulas with words in `\\text{}` as they are. It
    does not get code.
    """
    lines: list[str | None] = list(markdown.split("\n"))
    rows: dict[tuple[int, int], list[str]] = {}
    formulas: list[tuple[int, int, str]] = []
    extent, in_table = (0, 0), False
    for token in MarkdownIt("commonmark").enable("table").use(dollarmath_plugin).parse(markdown):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.map and (token.type == "tr_open" or not in_table):
            extent = token.map[0], token.map[1]
        if token.type == "inline":
            rows.setdefault(extent, []).append(token.content)
        elif token.type == "html_block" and (summary := _SUMMARY.search(token.content)):
            rows.setdefault(extent, []).append(summary[0])
        elif (
            token.type.startswith("math_block")
            and token.map
            and _FORMULA_WORDS.search(token.content)
        ):
            formulas.append((token.map[0], token.map[1], token.content))
    for (first, last), texts in rows.items():
        originals = [" ".join(line.strip() for line in text.splitlines()) for text in texts]
        changed = [change(text) if has_words(text) else text for text in originals]
        if changed == originals:
            continue
        line = str(lines[first])
        if len(texts) > 1:
            lines[first] = f"| {' | '.join(changed)} |"
        elif _SUMMARY.search(line):
            lines[first] = line.replace(texts[0], changed[0])
        else:
            begins = line.index(texts[0].split("\n")[0])
            # The paragraph becomes one line: the numbers of the lines below stay as they are.
            lines[first:last] = [line[:begins] + changed[0], *[None] * (last - first - 1)]
    for first, last, formula in formulas:
        block = "\n".join(map(str, lines[first:last])).replace(formula, change(formula))
        lines[first:last] = [block, *[None] * (last - first - 1)]
    return "\n".join(line for line in lines if line is not None)


def edition(released: Path, language: str, translated: dict[str, str]) -> Notebook:
    """Return a released notebook in another language: the same cells, with translated texts.

    Its first code cell names the language, because a kernel does not know which notebook it runs.

    Parameters
    ----------
    released : Path
        The English one, `NN-name.ipynb`.
    language : str
    translated : dict of str
        Texts in that language, by the English ones that `notebook_texts` returns.
    """
    notebook: Notebook = nbformat.read(released, as_version=4)
    name = Exercise(released.stem).edition(language).name

    def change(text: str) -> str:
        text = text.replace(released.name, NOTEBOOK)
        return translated.get(text, text).replace(NOTEBOOK, name)

    given_cells = [
        cell for cell in notebook.cells if is_code(cell) and is_locked(cell) and not is_graded(cell)
    ]
    first = min(
        given_cells, key=is_skipped, default=None
    )  # one that is always run, if there is any
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and is_locked(cell):
            cell.source = with_texts(cell.source, change)
        elif first is not None and cell is first:
            cell.source = with_language(cell.source, language)
        else:
            continue
        cell.metadata.nbgrader.checksum = compute_checksum(cell)
    notebook.metadata[words.KEY[0]] = {words.KEY[1]: language}
    return notebook


def notebook_texts(folder: Path) -> list[Text]:
    """Return the texts of an exercise's notebook, in its order."""
    texts: list[Text] = []

    def remember(text: str) -> str:
        texts.append(text.replace(f"{folder.name}.ipynb", NOTEBOOK))
        return text

    for cell in source.read(folder / f"{folder.name}.py").cells:
        if cell.cell_type == "markdown" and is_locked(cell):
            with_texts(cell.source, remember)
    with_texts(regrade.TEXT, remember)
    return [*texts, *packages.TEXTS]


# The texts of feedback.


def check_texts(folder: Path) -> list[Text]:
    """Return the texts of feedback for one exercise: where to read, titles of checks, sentences,
    labels and hints.
    """
    exercise = loader.load(folder)
    titles = [check.title for check in exercise.suite.checks]
    sentences = in_python(folder / "checks.py", _SPACE)
    feedback = [
        text
        for subject in exercise.subjects
        for module in exercise.answers
        for answer in answers_in(module, "wrong_for", subject)
        for text in (answer.label, answer.hint)
        if text
    ]
    return [*exercise.suite.read.values(), *titles, *sentences, *feedback]


def engine_texts() -> list[Text]:
    """Return the engine's texts for students, in all exercises."""
    texts: list[Text] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).as_posix()
        if part == CHECK or not part.startswith(NOT_SHOWN):
            texts += in_python(path, _PLACE)
    for path in sorted((PACKAGE / "feedback").rglob("*.j2")):
        texts += in_template(path)
    texts += map(str, [*Kind, *Status])
    for label, (_, hint) in FAMILIES.items():
        texts += [label, hint]
    return [*texts, STRETCHED, STRETCHED_HINT]


def grader_texts() -> list[Text]:
    """Return the texts that only graders read: of the table that `grade` prints, and of the
    report.
    """
    texts = [text for part in GRADERS for text in in_python(PACKAGE / part, _PLACE)]
    for path in sorted((PACKAGE / "templates").glob("*.j2")):
        texts += in_template(path)
    return [*texts, *report.texts_of_script()]


def in_template(path: Path) -> Iterator[Text]:
    """Yield the texts passed to `CALLS` in a template."""
    tree = Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
    for _, function, arguments in extract_from_ast(tree, CALLS):
        if not isinstance(arguments, tuple):
            arguments = (arguments,)
        texts = tuple(text for text in arguments if text)
        yield from [texts] if function == COUNTED else texts[:1]


def in_python(path: Path, literal_pattern: re.Pattern[str]) -> list[Text]:
    """Return the texts of feedback in a Python file, in order.

    1. The first argument of each call of one of `CALLS`: a literal, or a name that the file
       assigns.
    2. The literals of a loop whose variable is such an argument.
    3. Any other literal in which `literal_pattern` finds something, except documentation, parts of
       f-strings, and arguments of errors and declarations (`PASSED_OVER`).

    A call of `counted` gives one entry, the singular and the plural.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    text_at: dict[tuple[int, int], Text] = {}

    def add(node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_words(node.value):
            text_at[node.lineno, node.col_offset] = node.value
        elif isinstance(node, ast.IfExp):
            add(node.body)
            add(node.orelse)
        elif isinstance(node, ast.Dict | ast.BoolOp):
            for value in node.values:
                add(value)

    calls = _text_calls(ast.walk(tree))
    passed_names: set[str] = set()
    for call in calls:
        argument = call.args[0]
        add(argument)
        named = argument.value if isinstance(argument, ast.Subscript) else argument
        passed_names.add(ast.unparse(named))
    for name, value in _assignments(ast.walk(tree)):
        if name in passed_names:
            add(value)
    for node in _in_loops(tree):
        add(node)
    for node in _sentences(tree):
        if literal_pattern.search(str(node.value)):
            add(node)
    for call in calls:
        if _function_name(call) != COUNTED or len(call.args) < 2:
            continue
        singular, plural = call.args[:2]
        if isinstance(singular, ast.Constant) and isinstance(plural, ast.Constant):
            text_at[singular.lineno, singular.col_offset] = str(singular.value), str(plural.value)
            text_at.pop((plural.lineno, plural.col_offset), None)
    return [text_at[position] for position in sorted(text_at)]


def _text_calls(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    """Return the calls of `CALLS` among these nodes that have an argument."""
    return [
        node
        for node in nodes
        if isinstance(node, ast.Call) and _function_name(node) in CALLS and node.args
    ]


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the target, as text, and the value of each assignment, with and without a type."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


def _in_loops(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the literal values of loops whose variable is passed to one of `CALLS`."""
    assigned = dict(_assignments(tree.body))
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = list(ast.walk(function))
        passed_names = {ast.unparse(call.args[0]) for call in _text_calls(inside)}
        for loop in inside:
            if isinstance(loop, ast.For | ast.comprehension):
                targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
                for index, target in enumerate(targets):
                    if ast.unparse(target) in passed_names:
                        yield from _loop_values(loop.iter, assigned, index)


def _loop_values(values: ast.AST, assigned: dict[str, ast.expr], index: int) -> Iterator[ast.AST]:
    """Yield the literal values that a loop assigns to one of its targets."""
    if (
        isinstance(values, ast.Call)
        and isinstance(values.func, ast.Attribute)
        and values.func.attr == "items"
    ):
        values = values.func.value
    literal = assigned.get(ast.unparse(values), values)
    if isinstance(literal, ast.Dict):
        yield from filter(None, literal.values if index else literal.keys)
    elif isinstance(literal, ast.Tuple | ast.List):
        for element in literal.elts:
            yield element.elts[index] if isinstance(element, ast.Tuple) else element


def _function_name(call: ast.Call) -> str:
    """Return the name of a called function, without what is before its last dot."""
    return ast.unparse(call.func).rpartition(".")[2]


def _sentences(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield each text in a Python syntax tree that may be shown to people."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    passed_over = isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Call) and bool(PASSED_OVER.search(_function_name(node)))
    )
    if not passed_over:
        for part in ast.iter_child_nodes(node):
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)):
                yield from _sentences(part)


# Which text belongs in which catalog.


def texts_by_catalog(root: Path) -> dict[str, list[Text]]:
    """Return the texts of a course, in order, by the catalog that each belongs in, such as
    `feedback/01-qkv`.

    A text is in one catalog of each kind: in the engine's if the engine has it, in the shared one
    if several exercises have it.
    """
    catalogs: dict[str, list[Text]] = {}
    kinds: tuple[tuple[str, list[Text], Callable[[Path], list[Text]]], ...]
    kinds = (EXERCISES, [], notebook_texts), (FEEDBACK, engine_texts(), check_texts)
    for kind, engine, extract in kinds:
        by_exercise = {
            folder.name: dict.fromkeys(extract(folder)) for folder in loader.folders(root)
        }
        count = Counter(text for own_texts in by_exercise.values() for text in own_texts)
        shared_by_all = dict.fromkeys(engine)
        for name, own_texts in by_exercise.items():
            catalogs[f"{kind}/{name}"] = [
                text for text in own_texts if count[text] == 1 and text not in shared_by_all
            ]
        catalogs[f"{kind}/{SHARED}"] = [
            text for text in count if count[text] > 1 and text not in shared_by_all
        ]
        if shared_by_all:
            catalogs[f"{kind}/{ENGINE}"] = list(shared_by_all)
            others = {text for own_texts in by_exercise.values() for text in own_texts}
            catalogs[f"{kind}/{GRADER}"] = [
                text
                for text in dict.fromkeys(grader_texts())
                if text not in shared_by_all and text not in others
            ]
    return catalogs

"""Messages of feedback: templates with values, translated into the reader's language only when they
are shown.

A template is English and at the same time gettext's msgid. A value may be a message itself:

    Message("{what} is {found}.", what=Message("the result"), found="`x`")
    in English: "the result is `x`."        in Chinese: "结果是 `x`。"

`release` puts a catalog for each language into an
exercise's archive, beside this file: `locale/LANGUAGE/LC_MESSAGES/checking.mo`. Where there is
none, it is English.
"""

import contextlib
import functools
import gettext
import importlib.resources
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

CATALOG = "LC_MESSAGES/checking.mo"
LOCALES: Any = importlib.resources.files(__package__ or "checking") / "locale"
"""The folder of the catalogs: in an archive, where gettext itself finds none."""
SETTINGS = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables that set a language, as for gettext; the first one that is set counts."""
KEY = ("checking", "language")
"""Under these names a notebook's metadata say the language in which it was released."""
LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Z]{2})?")
ENGLISH = "en"
"""The language of the templates."""
FULL_STOPS = ".。"

# Between Chinese and Latin letters, digits or code is a space, whatever a value turns out to be.
_SCRIPT_CHANGE = re.compile(
    r"(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9`])|(?<=[A-Za-z0-9`])(?=[\u4e00-\u9fff])"
)
# A full-width sign has its own space, whatever follows it.
_AFTER = re.compile(r"(?<=[，。；：？！）]) +(?=\S)")
_PLACE = re.compile(r"\{(\w+)\}")
_used: ContextVar[tuple[str, Any]] = ContextVar("used", default=("", None))


@contextlib.contextmanager
def use(language: str, locales: Any = None) -> Iterator[None]:
    """Show feedback in a language for the duration of the context.

    Parameters
    ----------
    language : str
        Such as "zh_CN". If it is empty, or there is no catalog for it, the environment's.
    locales : Path or zipfile.Path, optional
        The folder of the catalogs. Default: next to this file.
    """
    token = _used.set((language, locales))
    try:
        yield
    finally:
        _used.reset(token)


def _catalog() -> gettext.NullTranslations:
    language, locales = _used.get()
    return _translations(language, _environment_setting(), locales or LOCALES)


def _environment_setting() -> str:
    """Return the environment's languages, with colons between them; "" if it sets none."""
    return next(filter(None, map(os.environ.get, SETTINGS)), "")


def environment_language(languages: list[str]) -> str:
    """Return which of these languages the environment asks for; "" if it is none of them, or
    English.
    """
    return _first_match(_environment_setting().split(":"), languages)


@functools.lru_cache(100)
def _translations(language: str, environment: str, locales: Any) -> gettext.NullTranslations:
    # Catalogs may be in a zip file, where gettext itself does not look.
    languages = sorted(folder.name for folder in locales.iterdir()) if locales.is_dir() else []
    match = _match(language, languages) or _first_match(environment.split(":"), languages)
    if not match:
        return gettext.NullTranslations()
    return gettext.GNUTranslations(io.BytesIO((locales / match / CATALOG).read_bytes()))


def _first_match(preferred: list[str], languages: list[str]) -> str:
    """Return the first preferred language that there is; "" if English is preferred to it."""
    for language in preferred:
        if re.split(r"[_.@-]", language)[0] in (ENGLISH, "C", "POSIX"):
            break
        if match := _match(language, languages):
            return match
    return ""


def _match(language: str, languages: list[str]) -> str:
    """Return which of the languages that there are is meant: by "de_AT.UTF-8" also de, by "zh"
    also zh_CN; or "".
    """
    full = re.split(r"[.@]", language)[0].replace("-", "_")
    if not full or full in languages:
        return full
    without_country = full.partition("_")[0]
    if without_country in languages:
        return without_country
    return next((other for other in languages if other.startswith(f"{full}_")), "")


def language() -> str:
    """Return the language in which feedback is shown here, such as "de"; "en" where there is no
    catalog for it.
    """
    return _catalog().info().get("language", ENGLISH).replace("_", "-")


def is_chinese() -> bool:
    """Tell whether feedback is shown in Chinese, whose signs are full-width and whose sentences
    have no spaces.
    """
    return language().startswith("zh")


def gap() -> str:
    """Return the space between two sentences in the reader's language, if any."""
    return "" if is_chinese() else " "


def language_of(notebook: Any) -> str:
    """Return the language that a notebook says it was released in, even if that is malformed; ""
    if it says none.
    """
    value = notebook.get("metadata")
    for name in KEY:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) and LANGUAGE.fullmatch(value) else ""


class Message:
    """A template and its values; `str()` gives the text in the reader's language.

    Parameters
    ----------
    text : str
        The English template, with names in braces where the values go.
    plural : str, optional
        The template for any other number than one; the number is the value named `count`.
    values : int, float, str, Message, or a list of them
        A list is shown with semicolons between its items, which lose their full stops.

    Raises
    ------
    ValueError
        If a name in braces has no value, and others have. Without any, braces are text.
    """

    def __init__(self, text: str, plural: str = "", /, **values: Any):
        # At once, where the mistake is, and not when a student is shown the message.
        for name in (*names_in(text), *names_in(plural)) if values else ():
            if name not in values:
                raise ValueError(f"the message {text!r} has no value for {{{name}}}")
        self.text, self.plural, self.values = text, plural, values

    @classmethod
    def from_record(cls, text: str, plural: str = "", /, **values: Any) -> "Message":
        """Return a message from a record, even if values are missing: its braces stay as they
        are.
        """
        message = cls("", "", **values)
        message.text, message.plural = text, plural
        return message

    def __str__(self) -> str:
        if self.plural:
            template = _catalog().ngettext(self.text, self.plural, self.values["count"])
        else:
            template = translated(self.text)
        if not self.values:
            return template
        # No str.format: what a translator misspells stays as it stands, and no template reaches
        # into a value.
        whole = _PLACE.sub(lambda match: _shown(self.values.get(match[1], match[0])), template)
        return _AFTER.sub("", _SCRIPT_CHANGE.sub(" ", whole)) if is_chinese() else whole

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (self.text, self.plural, self.values) == (other.text, other.plural, other.values)

    __hash__ = None  # type: ignore[assignment]  # its values may be lists

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON has it; `from_dict` makes it a message again."""
        plural = {"plural": self.plural} if self.plural else {}
        return {
            "text": self.text,
            **plural,
            "values": {name: _as_json(value) for name, value in self.values.items()},
        }


@functools.lru_cache(1000)
def names_in(template: str) -> tuple[str, ...]:
    """Return the names in braces, where the values of a template go."""
    return tuple(dict.fromkeys(_PLACE.findall(template)))


def counted(singular: str, plural: str, count: int, **values: Any) -> Message:
    """Return the `Message` for a count: the template `singular` if it is 1, `plural` otherwise,
    as the language has it.
    """
    return Message(singular, plural, count=count, **values)


def joined(template: str, items: Sequence[str | Message]) -> str | Message:
    """Return one `Message` (or str) for several, two at a time; `template` has a {left} and a
    {right}.
    """
    return functools.reduce(lambda left, right: Message(template, left=left, right=right), items)


def translated(text: str) -> str:
    """Return a text in the reader's language: itself, where the catalog does not have it."""
    return _catalog().gettext(text) if text else ""  # the empty msgid is the catalog's head


def lead(label: str | Message) -> str:
    """Return a label that ends in a colon, with the space that follows it in the reader's
    language, if any.
    """
    text = shown(label)
    return text if text.endswith("：") else f"{text} "


def between(template: str) -> str:
    """Return what a template has between, before and after its values, in the reader's language."""
    return str(Message(template, **dict.fromkeys(names_in(template), "")))


def enumerated(items: Iterable[Any]) -> str:
    """Return several messages as one text, with semicolons between them and without their full
    stops.
    """
    return str(
        joined("{left}; {right}", [shown(item).rstrip(FULL_STOPS) for item in items] or [""])
    )


def shown(message: Any) -> str:
    """Return the text of a `Message`, of what its `to_dict` returned, or of a plain template,
    for the reader.
    """
    return translated(message) if isinstance(message, str) else str(from_dict(message))


def to_dict(message: Any) -> Any:
    """Return a message as JSON has it: text where there are no values, template and values where
    there are.
    """
    if isinstance(message, Message):
        return message.to_dict() if message.values else message.text
    return message


def from_dict(message: Any) -> Any:
    """Return what `to_dict` was given; a text stays a text."""
    if isinstance(message, dict):
        values = {name: from_dict(value) for name, value in message["values"].items()}
        return Message.from_record(message["text"], message.get("plural", ""), **values)
    return [from_dict(item) for item in message] if isinstance(message, list) else message


def _as_json(value: Any) -> Any:
    # Unlike a message of its own, a value keeps the form of a message even without values: text is
    # not translated.
    if isinstance(value, Message):
        return value.to_dict()
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _shown(value: Any) -> str:
    return enumerated(value) if isinstance(value, (list, tuple)) else str(value)

"""What feedback says: templates with values, put into the reader's language when they are shown, and not before.

A template is English and at the same time gettext's msgid; a catalogue lies beside this file, in
`locale/LANGUAGE/LC_MESSAGES/checking.mo`. Where there is none, feedback is English. To collect the templates:
`pybabel extract -k Message -k translated -k counted:1,2 checking`.
"""

import contextlib
import functools
import gettext
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

DOMAIN = "checking"
LOCALES = Path(__file__).parent / "locale"
FULL_STOPS = ".。"

_PLACE = re.compile(r"\{(\w+)\}")
_language: ContextVar[str | None] = ContextVar("language", default=None)


@contextlib.contextmanager
def use(language: str | None) -> Iterator[None]:
    """Show feedback in a language, such as "zh_CN", as long as the context lasts; None means the environment's."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def _catalogue() -> gettext.NullTranslations:
    return _found(_language.get(), LOCALES)


@functools.lru_cache(100)
def _found(language: str | None, locales: Path) -> gettext.NullTranslations:
    # Without a language gettext reads the environment, once: a process does not change its language on the way.
    return gettext.translation(DOMAIN, str(locales), [language] if language else None, fallback=True)


def language() -> str:
    """Return the language in which feedback is shown here, such as "de"; "en" where there is no catalogue for it."""
    return _catalogue().info().get("language", "en").replace("_", "-")


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
    """

    def __init__(self, text: str, plural: str = "", /, **values: Any):
        self.text, self.plural, self.values = text, plural, values

    def __str__(self) -> str:
        if self.plural:
            template = _catalogue().ngettext(self.text, self.plural, self.values["count"])
        else:
            template = translated(self.text)
        if not self.values:
            return template
        # No str.format: what a translator misspells stays as it stands, and no template reaches into a value.
        return _PLACE.sub(lambda place: _shown(self.values.get(place[1], place[0])), template)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (self.text, self.plural, self.values) == (other.text, other.plural, other.values)

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON has it; `from_dict` makes it a message again."""
        plural = {"plural": self.plural} if self.plural else {}
        return {"text": self.text, **plural, "values": {name: _as_json(value) for name, value in self.values.items()}}


def counted(one: str, many: str, count: int, **values: Any) -> Message:
    """Return the `Message` for a count: the template `one` if it is one, `many` otherwise, as the language has it."""
    return Message(one, many, count=count, **values)


def joined(template: str, items: Sequence[str | Message]) -> str | Message:
    """Return one `Message` (or str) for several, two at a time; `template` has a {left} and a {right}."""
    return functools.reduce(lambda left, right: Message(template, left=left, right=right), items)


def translated(text: str) -> str:
    """Return a text in the reader's language: itself, where the catalogue does not have it."""
    return _catalogue().gettext(text) if text else ""  # the empty msgid is the catalogue's head


def enumerated(items: Iterable[Any]) -> str:
    """Return several messages as one text, with semicolons between them and without their full stops."""
    return str(joined("{left}; {right}", [shown(item).rstrip(FULL_STOPS) for item in items] or [""]))


def shown(message: Any) -> str:
    """Return the text of a `Message`, of what its `to_dict` returned, or of a plain template, for the reader."""
    return translated(message) if isinstance(message, str) else str(from_dict(message))


def to_dict(message: Any) -> Any:
    """Return a message as JSON has it: text where there are no values, template and values where there are."""
    if isinstance(message, Message):
        return message.to_dict() if message.values else message.text
    return message


def from_dict(message: Any) -> Any:
    """Return what `to_dict` was given; a text stays a text."""
    if isinstance(message, dict):
        values = {name: from_dict(value) for name, value in message["values"].items()}
        return Message(message["text"], message.get("plural", ""), **values)
    return [from_dict(item) for item in message] if isinstance(message, list) else message


def _as_json(value: Any) -> Any:
    # Unlike a message of its own, a value keeps the form of a message even without values: text is not translated.
    if isinstance(value, Message):
        return value.to_dict()
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _shown(value: Any) -> str:
    return enumerated(value) if isinstance(value, (list, tuple)) else str(value)

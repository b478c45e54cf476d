"""The catalogues that translators write, `locale/LANGUAGE/LC_MESSAGES/KIND/NAME.po`, and what is
made of them.

Of the kind `exercises` are the text cells of notebooks, of `feedback` what is said of answers. Each
exercise has one of either kind. A text that several exercises have is in `shared.po`, and what the
engine says itself in `autograder.po`; what only graders read is in `grader.po`. What a catalogue
lacks, or has for an older English text, stays English.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from autograder.checking import words
from autograder.course.config import UserError

EXERCISES, FEEDBACK = "exercises", "feedback"
SHARED, ENGINE, GRADER = "shared", "autograder", "grader"
Text: TypeAlias = str | tuple[str, ...]
"""A message's msgid, or the two of one that counts: for one, and for many."""
_EPOCH = datetime(1980, 1, 1, tzinfo=UTC)


def languages(root: Path) -> list[str]:
    """Return the languages into which a course is translated, such as zh_CN."""
    return sorted(folder.parent.name for folder in root.glob("locale/*/LC_MESSAGES"))


def place(root: Path, language: str, name: str) -> Path:
    """Return where a catalogue lies, such as `feedback/01-qkv`."""
    return root / "locale" / language / "LC_MESSAGES" / f"{name}.po"


def of_texts(root: Path, language: str, exercise: str) -> dict[str, str]:
    """Return what is translated of an exercise's text cells: nothing, where nobody has begun."""
    own = _held(place(root, language, f"{EXERCISES}/{exercise}"), language)
    shared = _held(place(root, language, f"{EXERCISES}/{SHARED}"), language) if own else {}
    return {str(text): str(said) for text, said in {**shared, **own}.items()}


def of_feedback(root: Path, language: str, exercise: str) -> bytes:
    """Return the catalogue of what feedback says in an exercise; the same texts make the same
    bytes.
    """
    names = (ENGINE, SHARED, exercise)
    return _compiled([place(root, language, f"{FEEDBACK}/{name}") for name in names], language)


@contextmanager
def for_graders(root: Path) -> Iterator[None]:
    """Say what a class reads, and what only its graders do, in the language that the environment
    asks for.
    """
    language = words.environment_language(languages(root))
    if not language:
        yield
        return
    paths = sorted(place(root, language, FEEDBACK).with_suffix("").glob("*.po"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(f"{language}/{words.CATALOG}", _compiled(paths, language))
    with words.use(language, zipfile.Path(zipfile.ZipFile(file))):
        yield


def _compiled(paths: Iterable[Path], language: str) -> bytes:
    """Return the translations in several catalogues as gettext reads them."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo

    made = Catalog(locale=language, creation_date=_EPOCH, revision_date=_EPOCH)
    for path in paths:
        for text, said in _held(path, language).items():
            made.add(text, said)
    file = io.BytesIO()
    write_mo(file, made)
    return file.getvalue()


def files(root: Path) -> Iterator[Path]:
    """Yield all catalogues from which exercises are made."""
    for language in languages(root):
        for kind in (EXERCISES, FEEDBACK):
            yield from sorted(place(root, language, kind).with_suffix("").glob("*.po"))


def _held(path: Path, language: str) -> dict[Text, Text]:
    """Return what a catalogue translates and still holds; nothing if there is no such file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return {}
    return _read(path, language, stat.st_mtime_ns, stat.st_size)


@lru_cache(50)
def _read(path: Path, language: str, _changed: int, _size: int) -> dict[Text, Text]:
    from babel.messages.pofile import PoFileError, read_po

    try:
        with path.open("rb") as file:
            catalogue = read_po(file, locale=language, abort_invalid=True)
    except (PoFileError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a valid catalog: {error}.") from None
    found: dict[Text, Text] = {}
    for message in catalogue:
        text, said = (
            part if isinstance(part, str) else tuple(part or ())
            for part in (message.id, message.string)
        )
        if text and said and all(said) and not message.fuzzy:
            found[text] = said
    return found

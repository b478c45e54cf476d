"""The catalogs that translators write, `locale/LANGUAGE/LC_MESSAGES/KIND/NAME.po`, and what is
made of them.

There are two kinds: `exercises` has the text cells of notebooks, `feedback` the texts about
answers. Each exercise has one catalog of each kind. Texts that several exercises have are in
`shared.po`, the engine's own texts in `autograder.po`, and texts that only graders read in
`grader.po`. A text that a catalog lacks, or has for an older English text, stays English.
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
# Instead of now, which babel would write into a catalog: then the same texts would make other
# bytes.
_EPOCH = datetime(1980, 1, 1, tzinfo=UTC)


def languages(root: Path) -> list[str]:
    """Return the languages into which a course is translated, such as zh_CN."""
    return sorted(folder.parent.name for folder in root.glob("locale/*/LC_MESSAGES"))


def path_of(root: Path, language: str, name: str) -> Path:
    """Return the path of a catalog, such as `feedback/01-qkv`."""
    return root / "locale" / language / "LC_MESSAGES" / f"{name}.po"


def of_texts(root: Path, language: str, exercise: str) -> dict[str, str]:
    """Return the translations of an exercise's text cells: none if it has no catalog yet."""
    translations = _translations(path_of(root, language, f"{EXERCISES}/{exercise}"), language)
    # The shared texts alone make no translated notebook.
    if not translations:
        return {}
    shared = _translations(path_of(root, language, f"{EXERCISES}/{SHARED}"), language)
    return {str(text): str(translated) for text, translated in (shared | translations).items()}


def of_feedback(root: Path, language: str, exercise: str) -> bytes:
    """Return the compiled catalog of an exercise's feedback; the same texts make the same bytes."""
    names = (ENGINE, SHARED, exercise)
    return _compiled([path_of(root, language, f"{FEEDBACK}/{name}") for name in names], language)


@contextmanager
def for_graders(root: Path) -> Iterator[None]:
    """Write messages for students and graders in the language that the environment asks for."""
    language = words.environment_language(languages(root))
    if not language:
        yield
        return
    paths = sorted(path_of(root, language, FEEDBACK).with_suffix("").glob("*.po"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{language}/{words.CATALOG}", _compiled(paths, language))
    with words.use(language, zipfile.Path(zipfile.ZipFile(file))):
        yield


def _compiled(paths: Iterable[Path], language: str) -> bytes:
    """Return the translations in several catalogs as gettext reads them."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo

    catalog = Catalog(locale=language, creation_date=_EPOCH, revision_date=_EPOCH)
    for path in paths:
        for text, translation in _translations(path, language).items():
            catalog.add(text, translation)
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def files(root: Path) -> Iterator[Path]:
    """Yield all catalogs from which exercises are made."""
    for language in languages(root):
        for kind in (EXERCISES, FEEDBACK):
            yield from sorted(path_of(root, language, kind).with_suffix("").glob("*.po"))


def _translations(path: Path, language: str) -> dict[Text, Text]:
    """Return the translations in a catalog that are not out of date; none if there is no such
    file.
    """
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
            catalog = read_po(file, locale=language, abort_invalid=True)
    except (PoFileError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a valid catalog: {error}.") from None
    translations: dict[Text, Text] = {}
    for message in catalog:
        text, translation = _forms(message.id), _forms(message.string)
        # Of a message that counts, each form must be translated: `all` is about these, not letters.
        if text and translation and all(translation) and not message.fuzzy:
            translations[text] = translation
    return translations


def _forms(part: str | Iterable[str] | None) -> Text:
    """Return a text or its translation, as a tuple for one that counts."""
    return part if isinstance(part, str) else tuple(part or ())

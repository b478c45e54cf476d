"""The book in other languages: each folder of locale/, such as locale/zh_CN/, is an edition in a
folder of the site.

    python book/tools/editions.py zh_CN  # into _build/html/zh/; the English one must be there

`book.yml` there says which settings of _config.yml differ, `LC_MESSAGES/book/` has a catalog for
each page. A page without one is not in the edition: links lead to the English page. No code is run:
what cells gave is in the cache.
"""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import yaml
from babel import Locale

from autograder.course import startup

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
HTML = BUILD / "html"
LOCALE = ROOT / "locale"
SOURCE = "en"


def languages():
    """Return the languages beside English, such as ["zh_CN"]."""
    return sorted(path.parent.name for path in LOCALE.glob("*/book.yml"))


def catalog_folder(language):
    """Return the folder of a language's catalogs."""
    return LOCALE / language / "LC_MESSAGES"


def pages(language):
    """Return the pages of an edition, as Sphinx names them: {"book/01-qkv", ...}."""
    return {f"book/{path.stem}" for path in catalog_folder(language).glob("book/*.po")}


def has_page(language, page):
    """Tell whether an edition has a page: it has a catalog, or is made by an extension and
    stands below one.
    """
    return bool({page, page.rpartition("/")[0]} & pages(language))


def language_code(language):
    """Return a language without its country, such as zh."""
    return language.partition("_")[0]


def folder(language):
    """Return the folder of an edition within the site, with a slash at its end; English is at
    the top.
    """
    return "" if language == SOURCE else f"{language_code(language)}/"


def tag(language):
    """Return a language as HTML names it, such as zh-CN."""
    return language.replace("_", "-")


def name(language):
    """Return a language in its own words, such as 中文."""
    return Locale.parse(language_code(language)).get_display_name()


def terms(language, part="terms"):
    """Return a part of a language's terms.toml, such as `terms`: English terms and its own."""
    path = LOCALE / language / "terms.toml"
    return tomllib.loads(path.read_text(encoding="utf8")).get(part, {}) if path.exists() else {}


def compile_catalogs(language):
    """Compile each catalog (.po) that is newer than its compiled file (.mo), which is read.

    Stale translations, marked fuzzy, are left out.
    """
    from sphinx.util.i18n import CatalogRepository

    for catalog in CatalogRepository(str(ROOT), [LOCALE.name], language, "utf-8").catalogs:
        if catalog.is_outdated():
            catalog.write_mo(language)


def merge_settings(settings, others):
    """Return settings with those of `others` in their place, level by level."""
    if not (isinstance(settings, dict) and isinstance(others, dict)):
        return others
    merged = settings | others
    for key in settings.keys() & others.keys():
        merged[key] = merge_settings(settings[key], others[key])
    return merged


def settings(language):
    """Return the path of an edition's settings; those of another language are put together in
    _build/.
    """
    plain = ROOT / "_config.yml"
    if language == SOURCE:
        return plain
    own = {"sphinx": {"config": {"language": language}}}
    merged = merge_settings(read(plain), own)
    merged = merge_settings(merged, read(LOCALE / language / "book.yml"))
    path = BUILD / f"{language}.yml"
    text = yaml.safe_dump(merged, allow_unicode=True, sort_keys=False)
    path.write_text(text, encoding="utf8")
    return path


def read(path):
    """Return the contents of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf8"))


def doctrees(language):
    """Return the folder in which Sphinx keeps what it read."""
    return BUILD / (".doctrees" if language == SOURCE else f".doctrees-{language}")


def build(language, strict=True):
    """Build an edition, and the page that leads to it; return the exit status.

    Parameters
    ----------
    language : str
    strict : bool
        Treat warnings as errors; if not, what cells write to stderr is also left out.
    """
    if language != SOURCE:
        compile_catalogs(language)
    overrides = {"nitpicky": strict} | ({} if strict else {"nb_output_stderr": "remove"})
    failed = sphinx(language, HTML / folder(language), doctrees(language), strict, **overrides)
    if not failed:
        redirect(language)
    return 1 if failed else 0


def read_messages():
    """Return what there is to translate of each page, {"book/01-qkv": [...]}; no code is run.

    Nothing if it fails.
    """
    doctrees = BUILD / ".doctrees-messages"
    # All pages are read again: extensions also put texts into them, and may have changed.
    shutil.rmtree(doctrees, ignore_errors=True)
    overrides = {"nb_execution_mode": "off", "messages_only": True}
    if sphinx(SOURCE, BUILD / "messages", doctrees, strict=False, builder="messages", **overrides):
        return {}
    return json.loads((BUILD / "messages" / "messages.json").read_text(encoding="utf8"))


def sphinx(language, out, doctrees, strict, builder="html", **overrides):
    """Run Sphinx as Jupyter Book does; return something true if it failed.

    Parameters
    ----------
    language : str
    out, doctrees : Path
        The folders of what is made, and of what was read.
    strict : bool
        Treat warnings as errors.
    builder : str
    overrides
        Settings that differ from the edition's.
    """
    startup.begin()  # before Jupyter Book imports jsonschema
    from jupyter_book.sphinx import build_sphinx

    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    overrides = {"external_toc_path": "_toc.yml", "latex_individualpages": False, **overrides}
    return build_sphinx(
        ROOT,
        out,
        noconfig=True,
        path_config=settings(language),
        confoverrides=overrides | {"nb_execution_cache_path": str(BUILD / ".jupyter_cache")},
        doctreedir=doctrees,
        builder=builder,
        warningiserror=strict,
        keep_going=True,
    )


def redirect(language):
    """Write the page that leads from an edition's folder to its landing page."""
    title = read(settings(language))["title"]
    (HTML / folder(language) / "index.html").write_text(
        f'<!doctype html><html lang="{tag(language)}"><meta charset="utf-8"><title>{title}</title>'
        '<meta http-equiv="refresh" content="0; url=book/index.html">'
        f'<p><a href="book/index.html">{title}</a></p></html>\n',
        encoding="utf8",
    )


if __name__ == "__main__":
    sys.exit(build(sys.argv[1], strict="--lenient" not in sys.argv))

"""Write the versions that are tested together, from pyproject.toml: `make lock`.

    python .ci/lock.py [--upgrade [NAME ...]]

requirements.txt has what the course uses, requirements-test.txt what its tests and linters use beyond that.

pip decides. What is pinned already stays, unless `--upgrade` gives a package (or, without names, every
package) free to be newer. Only names and versions are written: no address of an index, no build tag such as `+cpu`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK, TEST_LOCK = ROOT / "requirements.txt", ROOT / "requirements-test.txt"
COURSE, ALL = "book", "test"  # groups of pyproject.toml, each of which asks for those before it
# Pinned although no group names it, or at another version than pip would take; the reason is written beside it.
HELD = {
    "setuptools": ("80.9.0", "builds this package without a download"),
    "soupsieve": ("2.10", "newer ones do not work with the Python 3.11.2 of Debian 12"),
}
HEAD = "# {what}, pinned: made from pyproject.toml by `make lock`. Change that file, and not this one.\n"


def normal(name):
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def markers():
    """Return the markers of what is made for some machines only, by normal names: the lock repeats them for pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [line for each in (project["dependencies"], *project["optional-dependencies"].values()) for line in each]
    found = [(re.match(r"[\w.-]+", line)[0], line.partition(";")[2].strip()) for line in lines]
    return {normal(name): marker for name, marker in found if marker}


def groups():
    """Return the groups of pyproject.toml: their headings, and the normal names of the packages that they declare."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {"what students use": project["dependencies"], **project["optional-dependencies"]}
    found = {}
    for heading, requirements in declared.items():
        names = [normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in requirements]
        found[heading] = [name for name in names if name != normal(project["name"])]
    return found


def pins(text):
    """Return the pins of a requirements file: versions by normal name."""
    return {normal(name): version for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)}


def resolve(constraints, group):
    """Return what pip would install of a group into an empty environment: (name, version) by normal name."""
    with tempfile.TemporaryDirectory() as folder:
        given, report = Path(folder, "constraints.txt"), Path(folder, "report.json")
        given.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), "--constraint", str(given), f"{ROOT}[{group}]", *HELD]
        if subprocess.run(command).returncode:
            sys.exit("Pinned versions do not go together with pyproject.toml: let some go with --upgrade NAME.")
        installed = [item["metadata"] for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    found = {normal(item["name"]): (item["name"], item["version"].partition("+")[0]) for item in installed}
    found.pop("attention-by-hand")
    return found


def main():
    """Resolve and write."""
    parser = argparse.ArgumentParser(description="Write the pinned versions, from pyproject.toml.")
    parser.add_argument("--upgrade", nargs="*", metavar="NAME", help="let these be newer; without names, all")
    upgrade = parser.parse_args().upgrade
    kept = {} if upgrade == [] else pins(LOCK.read_text(encoding="utf-8") + TEST_LOCK.read_text(encoding="utf-8"))
    for name in upgrade or ():
        kept.pop(normal(name), None)
    everything = resolve({**kept, **{name: version for name, (version, _) in HELD.items()}}, ALL)
    course = resolve(dict(everything.values()), COURSE)
    beyond = {name: found for name, found in everything.items() if name not in course}
    LOCK.write_text(text("What the course uses", course, but=ALL), encoding="utf-8")
    TEST_LOCK.write_text(text("What tests use beyond requirements.txt", beyond), encoding="utf-8")


def text(what, found, but=""):
    """Return a requirements file: what the groups of pyproject.toml name, `but` one, and then what those need."""
    lines, left, where = HEAD.format(what=what), dict(found), markers()
    for heading, names in groups().items():
        names = [] if heading == but else names
        if here := sorted(name for name in names if name in left):
            lines += f"\n# {heading}\n" + "".join(_line(*left.pop(name), where) for name in here)
    return lines + "\n# what those need\n" + "".join(_line(*left[name], where) for name in sorted(left))


def _line(name, version, where):
    marker, reason = where.get(normal(name), ""), HELD.get(normal(name), ("", ""))[1]
    return f"{name}=={version}" + (f"; {marker}" if marker else "") + (f"  # {reason}" if reason else "") + "\n"


if __name__ == "__main__":
    main()

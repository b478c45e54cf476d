"""Where random draws come from: the course's secret, and fingerprints of what was handed in and of what grades it."""

import hashlib
import hmac
import os
import secrets

from autograder import checking
from autograder.checking import progress
from autograder.course import archive
from autograder.course.config import SETTINGS, Course, Exercise

BITS = 48
BESIDE = (progress.RELEASED, progress.CHECKED, "AGENTS.md")
"""What lies in an exercise's folder for students alone."""


def course_secret(course: Course) -> str:
    """Return the secret from which each submission's draws follow; made once, kept in `.course-secret`."""
    path = course.secret
    if not path.exists() or not path.read_text().strip():
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_text(secrets.token_hex(32) + "\n")
        new.replace(path)
    return path.read_text().strip()


def seed_for(secret: str, purpose: str, digest: str) -> int:
    """Return a seed: the same for the same purpose and hand-in, unknown to who handed it in."""
    mac = hmac.new(secret.encode(), f"{purpose}\0{digest}".encode(), hashlib.sha256)
    return int.from_bytes(mac.digest()[: BITS // 8], "big")


def fresh_seed() -> int:
    """Return a seed that nobody knows."""
    return secrets.randbits(BITS)


def digest_of(*parts: bytes) -> str:
    """Return a fingerprint of these parts in order, with its length each, so that no byte can change sides."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()


def version_of(exercise: Exercise) -> str:
    """Return a fingerprint of what decides an exercise's grades: the notebook, its checks, and what runs these.

    How feedback is drawn is no part of it, nor a title, a limit, a due date or another language: a changed style
    sheet makes no grade out of date.
    """
    left_out = {SETTINGS, archive.NAME, *BESIDE, *(path.name for path in exercise.editions)}
    parts = []
    for path in sorted(exercise.released.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.name not in left_out:
            parts += [path.relative_to(exercise.released).as_posix().encode(), path.read_bytes()]
    for name, data in archive.read(exercise.archive).items():
        if not (name.startswith("checking/") and name.rpartition("/")[2] in checking.SHOWS):
            parts += [name.encode(), data]
    return digest_of(*parts)

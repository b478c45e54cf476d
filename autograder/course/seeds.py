"""Where random draws come from: the course's secret, and fingerprints of what was handed in and
of what grades it.
"""

import hashlib
import hmac
import json
import re
import secrets
from enum import StrEnum
from pathlib import Path

from autograder import checking
from autograder.checking import files, progress
from autograder.course import archive
from autograder.course.config import SETTINGS, Course, Exercise, UserError

BITS = 48
SCHEME = "attention-by-hand 1"
"""Begins each text from which a key or a commitment is made, so that none of them is a text from
which seeds are.
"""
KEY = re.compile(r"[0-9a-f]{64}")
LEAST_DIGITS = 8
"""How many different digits a secret that was drawn has at least; one in 10^18 has fewer."""
CHECKS, GUEST = "checks", "guest"
"""What the seeds of a submission are for: the checks' inputs, and the random numbers of the
student's own code.
"""
BESIDE = (progress.RELEASED, progress.CHECKED, "AGENTS.md")
"""What lies in an exercise's folder for students alone."""


def course_secret(course: Course) -> str:
    """Return the secret from which each submission's draws follow; made once, kept in
    `.course-secret`.
    """
    path = course.secret
    if not path.exists() or not path.read_text().strip():
        with files.replaced(path) as building:
            # Before anything is in it.
            building.touch(mode=0o600)
            building.write_text(secrets.token_hex(32) + "\n")
    return path.read_text().strip()


def seed_for(secret: str, purpose: str, digest: str) -> int:
    """Return a seed: the same for the same purpose and hand-in, unknown to who handed it in."""
    # Neither names nor digests have a zero byte: no two pairs make the same text.
    mac = hmac.new(secret.encode(), f"{purpose}\0{digest}".encode(), hashlib.sha256)
    return int.from_bytes(mac.digest()[: BITS // 8], "big")


def key_of(secret: str, exercise: str, purpose: str = "key") -> str:
    """Return a key of an exercise, 64 hexadecimal digits: nothing about the secret or another key
    follows from it.

    Its seeds follow from the one with the purpose "key", which `reveal` makes public; those of
    submissions that are first graded after that follow from the one with the purpose "late key".
    """
    return hmac.new(
        secret.encode(), f"{SCHEME}\0{purpose}\0{exercise}".encode(), hashlib.sha256
    ).hexdigest()


def commitment_of(exercise: str, key: str) -> str:
    """Return the hash of an exercise's key that the course publishes on its first day, 64
    hexadecimal digits.
    """
    return hashlib.sha256(f"{SCHEME}\0commitment\0{exercise}\0{key}".encode()).hexdigest()


def fresh_seed() -> int:
    """Return a seed that nobody knows."""
    return secrets.randbits(BITS)


class Origin(StrEnum):
    """Where the seed of a grade comes from.

    Only those of the first can be compared with a commitment.
    """

    KEY = "key"
    LATE = "late key"
    EARLIER = "earlier"
    REDRAWN = "redrawn"


class Seeds:
    """The seeds of a course's submissions.

    Parameters
    ----------
    course : Course
        Its secret is made if it has none.

    Attributes
    ----------
    revealed : dict
        The public keys, by exercise.

    Raises
    ------
    UserError
        If the file with the public keys cannot be read: new submissions would then draw from a key
        that is public.
    """

    def __init__(self, course: Course):
        self.course, self.secret = course, course_secret(course)
        self.revealed = revealed_keys(course.revealed)

    def key(self, exercise: str) -> str:
        """Return the key that the course commits to."""
        return self.revealed.get(exercise) or key_of(self.secret, exercise)

    def commitment(self, exercise: str) -> str:
        """Return the hash of an exercise's key.

        Raises
        ------
        UserError
            If the secret can be guessed: each guess could be compared with a published hash.
        """
        if not KEY.fullmatch(self.secret) or len(set(self.secret)) < LEAST_DIGITS:
            raise UserError(
                f"{self.course.secret} was not drawn at random, so that a published hash of it "
                "would give it away. Delete the file before you grade anything; the next command "
                "makes a new one."
            )
        return commitment_of(exercise, self.key(exercise))

    def reveal(self, exercise: str) -> None:
        """Write the key of an exercise into the file of public keys; from then on, submissions
        draw from another.
        """
        # Only because it refuses a secret that can be guessed.
        self.commitment(exercise)
        self.revealed[exercise] = self.key(exercise)
        keys = json.dumps(self.revealed, indent=1, sort_keys=True)
        files.write(self.course.revealed, f"{keys}\n")

    def origin(self, exercise: str, digest: str, seed: int) -> Origin:
        """Return where the seed comes from with which a submission of this digest was graded."""
        for origin in (Origin.KEY, Origin.LATE, Origin.EARLIER):
            if self._drawn(origin, exercise, digest)[0] == seed:
                return origin
        return Origin.REDRAWN

    def for_submission(
        self, exercise: str, digest: str, graded: int | None = None
    ) -> tuple[int, int]:
        """Return a submission's seeds: of the checks' inputs, and of the student's own random
        numbers.

        Parameters
        ----------
        exercise, digest : str
        graded : int, optional
            The seed of its grade, if it has one already. It keeps this seed, unless that was drawn
            again on purpose.
        """
        origin = Origin.REDRAWN if graded is None else self.origin(exercise, digest, graded)
        if origin == Origin.REDRAWN:
            origin = Origin.LATE if exercise in self.revealed else Origin.KEY
        return self._drawn(origin, exercise, digest)

    def guest(self, exercise: str, digest: str, seed: int) -> int:
        """Return the seed of a student's own random numbers in the grading that had this seed
        for the checks.
        """
        return self._drawn(self.origin(exercise, digest, seed), exercise, digest)[1]

    def _drawn(self, origin: Origin, exercise: str, digest: str) -> tuple[int, int]:
        if origin == Origin.EARLIER:  # up to version 0.1, seeds followed from the secret itself
            checks = seed_for(self.secret, exercise, digest)
            guest = seed_for(self.secret, f"guest\0{exercise}", digest)
            return checks, guest
        late = origin == Origin.LATE
        key = key_of(self.secret, exercise, "late key") if late else self.key(exercise)
        return seed_for(key, CHECKS, digest), seed_for(key, GUEST, digest)


def revealed_keys(path: Path) -> dict[str, str]:
    """Return the keys in a file of public keys, by exercise; none if there is no such file.

    Raises
    ------
    UserError
        If it is not such a file.
    """
    try:
        keys = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, dict) or not all(
        isinstance(key, str) and KEY.fullmatch(key) for key in keys.values()
    ):
        raise UserError(
            f"{path} is damaged: it should have the keys that `reveal` made public. Restore it "
            "from a copy; without it, submissions would draw inputs that students can compute."
        )
    return keys


def digest_of(*parts: bytes) -> str:
    """Return a fingerprint of these parts in order, each with its length: bytes that move from one
    part to the next change it.
    """
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()


def version_of(exercise: Exercise) -> str:
    """Return a fingerprint of what decides an exercise's grades: the notebook, its checks, and what
    runs these.

    How feedback is drawn is no part of it, nor a title, a limit, a due date or another language: a
    changed style sheet makes no grade out of date.
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

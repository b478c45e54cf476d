"""The course's own command line on another course: `python benchmarks/ours.py COURSE grade 01-bench ...`."""

import functools
import sys
from pathlib import Path


def main():
    """Run `python -m autograder` with the course in a folder of one's own in place of the repository's."""
    from autograder import cli
    from autograder.course import Course

    cli.Course = functools.partial(Course, root=Path(sys.argv.pop(1)).resolve())
    cli.main()


if __name__ == "__main__":
    main()

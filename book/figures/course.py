"""What a page defines in the cells that are tagged `course-code`, for its figure and for tests;
and how it trains.
"""

import contextlib

import records
import torch


def of_chapter(name, **names):
    """Run the cells of a chapter that are tagged `course-code`, in their order; return what they
    define.

    Parameters
    ----------
    name : str
        Such as "07-transformer".
    names
        What the cells may use that they do not define or import.

    Raises
    ------
    ValueError
        If no cell has the tag.
    """
    code = records.chapter_code(name)
    if not code:
        raise ValueError(f"{name}.md has no cell with the tag course-code")
    with _and_back():
        exec(code, names)  # noqa: S102 (the course’s own page)
    return names


@contextlib.contextmanager
def as_the_page(seed, dtype=torch.float64):
    """Draw and compute as a page does that trains: this seed and dtype, one thread; afterwards all
    is as before.

    With more threads sums round otherwise, and training makes much of it.
    """
    with _and_back():
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        torch.set_num_threads(1)
        yield


@contextlib.contextmanager
def _and_back():
    """Leave torch's generator, default dtype and number of threads as they were."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)

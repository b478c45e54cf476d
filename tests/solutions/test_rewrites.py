"""Right answers that are written otherwise by machine: none loses a point, and each still means
the same.
"""

import ast

import numpy as np
import pytest

from autograder.authoring import loader, rewrites

SAMPLE = 12
OF_TORCH = 30  # rewrites of a function; `benchmarks/accuracy.py` takes all
TEXTS = {
    "a @ b": ["as_einsum(a, b)", "as_sum(a, b)", "as_loop(a, b)"],
    "a + b": ["exchanged(a, b)"],
    "a - b": ["negated(a, b)"],
    "a * b": ["b * a"],
    "a.sum(axis=-1)": ["np.sum(a, axis=-1)"],
}


@pytest.mark.parametrize("before", TEXTS)
def test_a_rewritten_text(before):
    names = set()
    for change in (rewrites.TEXTS | rewrites.OF_NUMPY).values():
        tree = change.visit(ast.parse(before, mode="eval"))
        names.add(ast.unparse(ast.fix_missing_locations(tree)))
    assert names - {before} == set(TEXTS[before])


@pytest.mark.parametrize("product", [rewrites.as_einsum, rewrites.as_sum, rewrites.as_loop])
def test_products_are_those_of_matrices(product):
    rng = np.random.default_rng(0)
    for a, b in [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((2, 1, 3, 4), (3, 4, 1)),
    ]:
        A, B = rng.normal(size=a), rng.normal(size=b)
        np.testing.assert_allclose(product(A, B), A @ B)
    for a, b in [((3, 4), (5, 2)), ((3, 1), (5, 2)), ((3, 4), (1, 2))]:
        with pytest.raises(ValueError):
            product(np.ones(a), np.ones(b))


def test_some_rewrites_lose_nothing():
    exercise = loader.load(loader.FOLDERS[0])
    for subject in exercise.programs:
        for rewrite, lost in rewrites.try_rewrites(exercise, subject, SAMPLE):
            assert not lost, rewrite.name


@pytest.mark.long
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_no_rewrite_loses_a_point(folder):
    exercise = loader.load(folder)
    most = {
        "06": OF_TORCH,
        "07": OF_TORCH,
        "08": OF_TORCH,
        "10": OF_TORCH,
        "11": 8,
        "12": OF_TORCH,
    }.get(folder.name[:2], rewrites.MOST)
    for subject in exercise.programs:
        for rewrite, lost in rewrites.try_rewrites(exercise, subject, most):
            assert not lost, rewrite.name

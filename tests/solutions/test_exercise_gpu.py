"""Exercise 11: a mistake is told whatever students choose, and the layer of the model answer is
fit for use.
"""

import types

import pytest
import torch
from torch import nn
from torch.nn import functional

from autograder.authoring import loader
from autograder.checking import memory
from autograder.course.config import ROOT

FOLDER = ROOT / "solutions" / "11-gpu"
FAULTS = ["tiled", "no_scale", "no_W_o", "not_causal", "reshape", "interleaved", "d_model"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_recognized_for_each_layout_of_projections(fault):
    """The listed layers have one fused projection; many students keep three."""
    exercise = loader.load(FOLDER)
    layer = exercise.answers[0].layer_of(fault, fused=False)
    failures = [
        result
        for result in exercise.suite.examine("MultiHeadLayer", layer).results
        if result.status == "failed"
    ]
    assert failures and failures[0].cause == f"MultiHeadLayer_{fault}", [
        (result.name, result.cause) for result in failures
    ]


@pytest.mark.parametrize("n", [1, 5])
def test_new_tokens_beside_a_cache_cost_the_models_layer_no_copy_of_it(n):
    """Eight query heads share one of 2000 keys, 64 kB: a copy for each, or a query for each key,
    takes 512 kB.
    """
    text = (FOLDER / "11-gpu.py").read_text(encoding="utf-8")
    names = {"torch": torch, "nn": nn, "functional": functional}
    exec(text.partition("# %% MultiHeadLayer\n")[2].partition("# %% ")[0], names)
    layer = names["MultiHeadLayer"](64, 8, 1)
    cache = types.SimpleNamespace(append=lambda k, v: (keys, values))
    keys, values = torch.randn(2, 1, 1, 2000, 8)
    with torch.no_grad():
        peak = memory.peak_memory(lambda x: layer(x, None, True, cache), torch.randn(1, n, 64))
    assert peak[1] < 400_000

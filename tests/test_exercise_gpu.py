"""Exercise 11: what students may choose changes nothing in what they are told."""

import pytest
from conftest import ROOT

from autograder.authoring import loader

FAULTS = ["tiled", "no_scale", "no_W_o", "not_causal", "reshape", "interleaved", "d_model"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_told_however_the_projections_are_kept(fault):
    """The listed layers have one fused projection; many students keep three."""
    exercise = loader.load(ROOT / "solutions" / "11-gpu")
    layer = exercise.answers[0].layer_of(fault, fused=False)
    found = [own for own in exercise.suite.examine("MultiHeadLayer", layer).results if own.status == "failed"]
    assert found and found[0].cause == f"MultiHeadLayer_{fault}", [(own.name, own.cause) for own in found]

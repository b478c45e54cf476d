"""The table of released models, `models.toml`, and the comparison with a released block."""

import json
import math
import tomllib

import pytest
from figures.course import of_chapter

from autograder.course.config import ROOT

MODELS = tomllib.loads((ROOT / "book" / "13-today" / "models.toml").read_text(encoding="utf8"))
KINDS = {"full", "window", "chunk", "latent", "selected", "linear"}
NEEDED = {"year", "layers", "heads", "d_k", "norm", "qk_norm", "stretch", "rotation", "extra"}
OPTIONAL = {
    "window",
    "kv_heads",
    "latent",
    "rotated",
    "index",
    "state",
    "recent",
    "context",
    "theta",
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_fields_of_its_kinds_of_layers(name):
    model = MODELS[name]
    kinds = set(model["layers"])
    assert kinds <= KINDS and min(model["layers"].values()) > 0
    assert NEEDED | {"feed", "source"} <= set(model) <= NEEDED | OPTIONAL | {"feed", "source"}
    assert ("window" in model) == bool(kinds & {"window", "chunk"})
    assert ("latent" in model) == ("rotated" in model) == bool(kinds & {"latent", "selected"})
    assert ("index" in model) == ("selected" in kinds)
    assert ("state" in model) == ("recent" in model)
    assert "state" not in model or "linear" in kinds
    assert model["norm"] in ("pre", "post", "both", "")
    assert model["qk_norm"] in ("head", "all", "no weights", "")
    assert model["heads"] % model.get("kv_heads", 1) == 0 and 2023 <= model["year"] <= 2026


@pytest.mark.parametrize("name", MODELS)
def test_each_row_names_a_file_that_was_read(name):
    """A package of a version that the file's head names, or a file of a repository with its
    commit.
    """
    for source in MODELS[name]["source"].split("; "):
        package = source.startswith(("litgpt, ", "transformers, "))
        assert package or source.split(" ")[0].rstrip(",").count("/") == 1


@pytest.fixture(scope="module")
def cache_bytes():
    """The page's function."""
    return of_chapter("13-today-deeper", math=math)["cache_bytes"]


@pytest.mark.parametrize(
    ("kinds", "tokens", "expected"),
    [
        ([(32, 2 * 8 * 128, math.inf)], 131_072, 17_179_869_184),  # as chapter 10 counts Llama 3
        ([(61, 576, math.inf)], 1, 70_272),
        ([(32, 2048, 4096)], 4096, 536_870_912),
        ([(32, 2048, 4096)], 1_000_000, 536_870_912),  # a window is full
        ([(3, 100, 1), (1, 10, math.inf)], 7, 740),  # states, and one full layer
    ],
)
def test_the_bytes_of_a_cache(cache_bytes, kinds, tokens, expected):
    assert cache_bytes(tokens, kinds) == expected


def test_layers_are_as_many_as_released():
    """Counts that the sources give as one number."""
    expected = {
        "Llama 3.1 8B": 32,
        "Gemma 3 27B": 62,
        "DeepSeek-V3": 61,
        "gpt-oss-120b": 36,
        "Qwen3-Next 80B": 48,
        "Kimi Linear 48B": 27,
        "MiniMax-Text-01": 80,
    }
    assert {name: sum(MODELS[name]["layers"].values()) for name in expected} == expected


def test_the_comparison_with_a_released_block_is_recorded():
    """Agreement where rows are sorted, and only there."""
    record = json.loads((ROOT / "book" / "data" / "today.json").read_text(encoding="utf8"))
    apart = record["apart"]
    assert max(apart[name] for name in ("float64", "exercise", "sinks")) < 1e-13
    assert apart["float32"] < 1e-5
    assert apart["unsorted"] > 0.1 and apart["unsorted_gains"] > 0.1
    assert {"date", "python", "torch", "transformers"} == set(record["made"])

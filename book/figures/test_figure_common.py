"""What all figures share: mathematics and the way numbers are written, in the figures' own
JavaScript.
"""

import math

import javascript
import pytest
import torch

from figures import testing


def test_ties_are_named_as_such(tmp_path):
    cases = [[1.0, 2.0, 0.5], [2.0, 1.0, 2.0], [0.0, 0.0, 0.0], [5.0], [0.4, 0.2, 0.4]]
    found = testing.in_node(tmp_path, "common/mathematics", "m.largest(c)", cases)
    assert found == [[1], [0, 2], [0, 1, 2], [0], [0, 2]]


def test_a_sentence_names_one_that_has_half_and_else_all_that_count(tmp_path):
    cases = {
        (0.1, 0.7, 0.2): [True, [1]],
        (0.1, 0.4, 0.16, 0.34): [False, [1, 3, 2]],
        (0.5, 0.5): [False, [0, 1]],
        (0.1,) * 10: [False, list(range(10))],
    }
    found = testing.in_node(
        tmp_path, "common/mathematics", "m.leading(c)", [list(case) for case in cases]
    )
    assert [[one["alone"], one["places"]] for one in found] == list(cases.values())


def test_gelu_and_the_error_function(tmp_path):
    xs = [-9.0, -6.0, -5.99, -3.0, -1.0, -1e-9, 0.0, 1e-300, 0.5, 1.0, 2.0, 4.0, 6.0, 30.0]
    answers = testing.in_node(tmp_path, "common/mathematics", "[m.erf(c), m.gelu(c)]", xs)
    for x, (error, bent) in zip(xs, answers, strict=True):
        assert error == pytest.approx(math.erf(x), rel=1e-13, abs=1e-300)
        assert bent == pytest.approx(
            torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64)).item(), abs=1e-14
        )


def written(tmp_path, expression, cases):
    """Assert that an expression of the module writes each of the cases so."""
    assert testing.in_node(tmp_path, "common/numbers", expression, list(cases)) == list(
        cases.values()
    )


def test_no_share_is_called_nothing_or_all_that_is_not(tmp_path):
    shares = {
        0: "0%",
        1e-9: "<1%",
        0.0049: "<1%",
        0.005: "1%",
        0.125: "13%",
        0.5: "50%",
        0.994: "99%",
    }
    written(
        tmp_path,
        "m.percent(c)",
        shares | {0.995: "100%", 0.9951: ">99%", 1 - 1e-12: ">99%", 1: "100%"},
    )


def test_powers_of_ten(tmp_path):
    powers = {
        2.4e-5: "2·10⁻⁵",
        -9.7e-7: "\u22121·10⁻⁶",
        3e-310: "3·10⁻³¹⁰",
        0.004: "4·10⁻³",
        12_345: "1·10⁴",
    }
    written(tmp_path, "m.scientific(c)", powers)


def test_decimals(tmp_path):
    written(
        tmp_path, "m.show(c)", {0.125: "0.13", -1: "\u22121.00", -0.004: "0.00", 1234.5: "1234.50"}
    )
    written(tmp_path, "m.plain(c)", {0.125: "0.13", -1: "\u22121", 0.5: "0.5", 100: "100"})


def test_a_bundle_follows_its_modules_and_names_a_mistake(tmp_path, monkeypatch):
    monkeypatch.setattr(javascript, "BOOK", tmp_path)
    monkeypatch.setattr(javascript, "BUILD", tmp_path / "_build")
    module, shared = tmp_path / "module.js", tmp_path / "figures" / "common" / "shared.js"
    shared.parent.mkdir(parents=True)
    shared.write_text("export const size = 3;\n")
    path = "./figures/common/shared.js"
    module.write_text(f'import {{ size }} from "{path}";\nexport default {{ size }};\n')
    first = javascript.bundle(module)
    # the second time from its file
    assert "size = 3" in first and javascript.bundle(module) == first
    shared.write_text("export const size = 4;\n")
    assert "size = 4" in javascript.bundle(module)
    module.write_text(f'import {{ length }} from "{path}";\nexport default {{ length }};\n')
    with pytest.raises(RuntimeError, match=r"cannot bundle module.js[^$]*No matching export"):
        javascript.bundle(module)

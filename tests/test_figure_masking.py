"""The figure of chapter 05 computes what the chapter's own Python computes, and rounds as NumPy and torch round."""

import json

import figure_tools
import numpy as np
import pytest
import torch
from figures import masking as figure

FIGURE = ".abh-masking"
KINDS = figure.FORMATS
ROWS = ("scores", "filled", "powers", "weights")
# JSON has neither NaN nor infinity nor -0: doubles cross as their two halves.
READ = "new Float64Array(new Uint32Array(c.x).buffer)"
WRITE = "Array.from(new Uint32Array(new Float64Array(%s).buffer))"


def halves(x):
    return np.asarray(x, dtype="<f8").view("<u4").tolist()


def numbers(x):
    return np.array(x, dtype="<u4").view("<f8")


@pytest.fixture(scope="module")
def course():
    """The functions of the chapter, taken from the page itself."""
    return figure_tools.of_chapter("05-masking")


def hard_numbers():
    """Numbers where rounding goes wrong: ties, subnormals, the edges of each format, NaN and infinity."""
    rng = np.random.default_rng(20261122)
    x = rng.normal(size=4000) * 10.0 ** rng.uniform(-50, 42, size=4000)
    edges = []
    for bits, low, high in ((24, -126, 127), (8, -126, 127), (11, -14, 15)):
        for power in (low - bits, low - bits + 1, low - bits + 2, low - 1, low, 0, high, high + 1):
            for steps in range(5):  # halves, quarters and a hair beside them
                tie = 2.0**power * (1 + steps * 2.0 ** (-bits - 1))
                edges += [tie, np.nextafter(tie, np.inf), np.nextafter(tie, 0), 2 * tie - 2.0**power]
    edges = np.array(edges)
    return np.concatenate([x, edges, -edges, [0.0, -0.0, np.inf, -np.inf, np.nan, -1e9, -1e6, -1e4, 65519.99, 65520]])


def same(found, expected):
    """Equal to the last bit, the sign of a zero included; every NaN is like any other."""
    return np.array_equal(found, expected, equal_nan=True) and np.array_equal(
        np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(expected)]
    )


def test_rounding_is_that_of_numpy_and_torch(course, tmp_path):
    x = hard_numbers()
    single = x[np.isnan(x) | (abs(x) < 3e38) | np.isinf(x)].astype(np.float32).astype(float)
    with np.errstate(over="ignore"):
        wanted = {"fp32": (x, x.astype(np.float32)), "fp16": (x, x.astype(np.float16))}
    wanted["bf16"] = (single, torch.from_numpy(single).float().bfloat16().double().numpy())
    cases = [{"x": halves(numbers_in), "kind": kind} for kind, (numbers_in, _) in wanted.items()]
    expression = WRITE % f"Array.from({READ}).map((v) => m.roundTo(v, c.kind))"
    answers = figure_tools.in_node(tmp_path, "masking", expression, cases)
    for (kind, (given, expected)), answer in zip(wanted.items(), answers, strict=True):
        expected = expected.astype(float)
        assert same(numbers(answer), expected), kind
        assert same(course["round_to"](given, kind), expected), kind


def random_rows(number=400):
    rng = np.random.default_rng(7)
    cases = []
    for i in range(number):
        n = int(rng.integers(1, 9))
        s = rng.normal(size=n) * 10 ** rng.uniform(-2, 7)
        allowed = rng.random(n) < rng.choice([0.0, 0.5, 1.0], p=[0.2, 0.6, 0.2])
        fill = figure.FILLS[i % len(figure.FILLS)]
        cases.append({"s": s.tolist(), "allowed": allowed.tolist(), "fill": fill, "kind": KINDS[i % 3]})
    cases.append({"s": [1e30, -1e30, 5.0], "allowed": [True, False, False], "fill": -np.inf, "kind": "bf16"})
    cases.append({"s": [1e6, 2.0], "allowed": [True, True], "fill": None, "kind": "fp16"})
    return cases


def rows_in_node(tmp_path, cases):
    sent = [{**c, "fill": None if c["fill"] is None else str(c["fill"]).replace("inf", "Infinity")} for c in cases]
    names = ", ".join(f"{name}: {WRITE % f'r.{name}'}" for name in ROWS[1:])
    row = "m.filledRow(c.s, c.allowed, c.fill === null ? null : Number(c.fill), c.kind)"
    return figure_tools.in_node(tmp_path, "masking", f"((r) => ({{ {names} }}))({row})", sent)


def test_rows_equal_the_chapter(course, tmp_path):
    cases = random_rows()
    exact = 0
    seen = set()
    for case, answer in zip(cases, rows_in_node(tmp_path, cases), strict=True):
        s, allowed = np.array(case["s"]), np.array(case["allowed"])
        expected = course["filled_weights"](s, allowed, case["fill"], case["kind"])
        found = numbers(answer["weights"])
        # exp of node and of NumPy may differ in a double's last bit: then a rounding may fall to the other side
        exact += np.array_equal(found, expected, equal_nan=True)
        bits, low, _ = course["FORMATS"][case["kind"]]
        np.testing.assert_allclose(found, expected, rtol=4 * 2.0**-bits, atol=2.0 ** (low - bits + 2))
        seen |= {(case["kind"], "nan" if np.isnan(found).any() else "leak" if found[~allowed].any() else "fine")}
    assert exact >= len(cases) - 2
    assert len(seen) == 9, seen  # every outcome in every format


def test_rows_are_close_to_those_of_torch(course, tmp_path):
    """Where the softmax is computed inside differs; the filled scores, and so the leaks, do not."""
    cases = [c for c in random_rows() if c["fill"] is not None]
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    for case, answer in zip(cases, rows_in_node(tmp_path, cases), strict=True):
        dtype = types[case["kind"]]
        score = torch.tensor(case["s"], dtype=torch.float32).to(dtype)
        closed = ~torch.tensor(case["allowed"])
        filled = torch.where(closed, score + torch.tensor(case["fill"], dtype=dtype), score)
        rounded = np.array_equal(numbers(answer["filled"]), filled.double().numpy(), equal_nan=True)
        assert rounded or case["kind"] == "bf16"  # a double rounds once to bfloat16, torch goes through float32
        theirs, ours = torch.softmax(filled.double(), -1).numpy(), numbers(answer["weights"])
        assert np.array_equal(np.isnan(theirs), np.isnan(ours))
        bits = course["FORMATS"][case["kind"]][0]
        # the difference t - max is rounded, by up to half of 2**(1 - bits) times itself, 32 where weights are not 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=40 * 2.0**-bits)


def test_ours_is_softmax_over_the_allowed_keys(course, tmp_path):
    cases = [{**c, "fill": None, "kind": "fp32"} for c in random_rows(100)]
    for case, answer in zip(cases, rows_in_node(tmp_path, cases), strict=True):
        s, allowed = np.array(case["s"]), np.array(case["allowed"])
        found = numbers(answer["weights"])
        assert (found[~allowed] == 0).all()
        np.testing.assert_allclose(found.sum(), allowed.any(), atol=1e-6)
        if abs(s).max() < 100:
            np.testing.assert_allclose(found, course["masked_weights"](s, allowed), atol=1e-5)


def test_verdicts(tmp_path):
    cases = [
        {"w": [0.5, 0.5], "a": [True, True], "kind": "fine", "leak": 0},
        {"w": [0, 0], "a": [False, False], "kind": "empty", "leak": 0},
        {"w": [0.25, 0.75], "a": [False, True], "kind": "leaks", "leak": 0.25},
        {"w": ["NaN", "NaN"], "a": [False, True], "kind": "nan", "leak": None},
    ]
    for case, answer in zip(
        cases, figure_tools.in_node(tmp_path, "masking", "m.verdict(c.w.map(Number), c.a)", cases), strict=True
    ):
        assert answer == {"kind": case["kind"], "leak": case["leak"]}


def test_numbers_are_short(tmp_path):
    cases = ["1.3", "-9998.7", "-1e9", "-998244352", "0", "0.00012", "-Infinity", "NaN", "0.367879441"]
    expected = ["1.3", "−9998.7", "−1.00e9", "−9.98e8", "0", "1.20e−4", "−∞", "NaN", "0.367879"]
    assert figure_tools.in_node(tmp_path, "masking", "m.short(Number(c))", cases) == expected


def test_presets_follow_the_chapter(course):
    presets = {p["name"]: p for p in figure.PRESETS}
    assert np.array_equal(presets["causal"]["mask"], [course["sees"](i, 6, 6) for i in range(6)])
    assert np.array_equal(presets["cache"]["mask"], [course["sees"](i, 3, 6) for i in range(3)])
    assert np.array_equal(presets["padding"]["mask"], [course["real"](4, 6)] * 6)
    assert not np.array(presets["left"]["mask"])[:2].any()
    for preset in presets.values():
        assert preset["name"] in figure.TEXT


def test_the_figure_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="3 queries and 6 keys"):
        figure.MaskingFigure(presets=[{**figure.PRESETS[2], "mask": np.ones((6, 6))}], preset=0)
    with pytest.raises(ValueError, match="shape"):
        figure.MaskingFigure(scores=np.zeros((2, 6)))


# ---- in the browser --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows, as exact numbers and as text."""
    found = page.evaluate("""() => {
      const root = document.querySelector(".abh-masking");
      return {
        rows: root.dataset.rows,
        mask: [...root.querySelectorAll(".abh-mask tbody tr")].map((r) =>
          [...r.querySelectorAll("button")].map((b) => b.getAttribute("aria-pressed") === "true")),
        cells: [...root.querySelectorAll(".abh-weights tbody tr")].map((r) =>
          [...r.querySelectorAll(".abh-value")].map((d) => d.firstChild.textContent)),
        framed: [...root.querySelectorAll(".abh-weights tbody tr")].map((r) =>
          [...r.querySelectorAll(".abh-value")].map((d) => d.classList.contains("abh-leak"))),
        states: [...root.querySelectorAll(".abh-weights tbody tr")].map((r) => r.dataset.state),
        steps: [...root.querySelectorAll(".abh-steps tbody tr")].map((r) =>
          [...r.children].map((c) => c.textContent)),
      };
    }""")
    exact = [
        {name: np.array([float(x.replace("Infinity", "inf")) for x in row[name]]) for name in ROWS}
        for row in json.loads(found["rows"])
    ]
    return {**found, "rows": exact}


def check_shown(course, now, fill, kind, mask, exponent=0.0):
    """Everything on show follows from the mask, the fill, the format and the scale."""
    mask = np.array(mask, dtype=bool)
    assert np.array_equal(now["mask"], mask)
    scores = figure.SCORES[-len(mask) :] * 10**exponent
    for i, allowed in enumerate(mask):
        expected = course["filled_weights"](scores[i], allowed, fill, kind)
        found = now["rows"][i]["weights"]
        bits = course["FORMATS"][kind][0]
        np.testing.assert_allclose(found, expected, rtol=4 * 2.0**-bits, atol=1e-40)
        leaks = ~allowed & (expected > 0)
        assert now["framed"][i] == leaks.tolist()
        if np.isnan(expected).any():
            state = "nan"
        else:
            state = "leaks" if leaks.any() else "fine" if allowed.any() else "empty"
        assert now["states"][i] == state
        for cell, a in zip(now["cells"][i], expected, strict=True):
            if np.isnan(a):
                assert cell == "NaN"
            elif 0 < a < 0.005:
                assert cell == "<.01"
            elif a >= 0.995:
                assert cell == "1"
            else:
                assert abs(float(cell) - a) < 0.00501


@pytest.fixture(scope="module")
def loaded(browser, site):
    """The page, loaded once, and what its figure shows at first."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(site + "/book/05-masking.html")
    page.locator(f"{FIGURE} .abh-cell").first.scroll_into_view_if_needed(timeout=20_000)
    yield page, shown(page)
    page.close()


@pytest.fixture
def chapter(loaded):
    """The page, its figure as it was at first."""
    page, first = loaded
    for name in ("all", "causal, padded on the left", "+ (−10⁹)", "fp32"):
        pick(page, name)
    page.locator(f"{FIGURE} input[type=range]").press("Home")  # a tenth
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.locator(f"{FIGURE} .abh-weights input").nth(1).check()
    assert shown(page)["steps"] == first["steps"]
    return page


def pick(page, name):
    page.locator(FIGURE).get_by_role("radio", name=name, exact=True).check(force=True)


@pytest.mark.slow
@pytest.mark.browser
def test_every_fill_and_format_shows_pythons_numbers(chapter, course):
    left = figure.PRESETS[4]["mask"]
    check_shown(course, shown(chapter), -1e9, "fp32", left)
    chapter.locator(f"{FIGURE} .abh-summary", has_text="2 of 6").wait_for(timeout=3000)
    fills = ["left out (ours)", "+ (−∞)", "+ (−10⁹)", "+ (−10⁶)", "+ (−10⁴)"]
    for name, fill in zip(fills, figure.FILLS, strict=True):
        pick(chapter, name)
        for kind in KINDS:
            pick(chapter, kind)
            check_shown(course, shown(chapter), fill, kind, left)


@pytest.mark.slow
@pytest.mark.browser
def test_every_preset_shows_its_mask(chapter, course):
    pick(chapter, "left out (ours)")
    for preset in figure.PRESETS:
        pick(chapter, figure.TEXT[preset["name"]])
        check_shown(course, shown(chapter), None, "fp32", preset["mask"])


@pytest.mark.slow
@pytest.mark.browser
def test_the_slider_makes_a_small_fill_leak(chapter, course):
    pick(chapter, "causal")
    pick(chapter, "+ (−10⁴)")
    causal = figure.PRESETS[1]["mask"]
    slider = chapter.locator(f"{FIGURE} input[type=range]")
    slider.focus()
    for _ in range(14):
        chapter.keyboard.press("ArrowRight")
    now = shown(chapter)
    check_shown(course, now, -1e4, "fp32", causal, exponent=3.5)
    assert "leaks" not in now["states"]
    for _ in range(2):
        chapter.keyboard.press("ArrowRight")
    now = shown(chapter)
    check_shown(course, now, -1e4, "fp32", causal, exponent=4)
    assert "leaks" in now["states"]
    pick(chapter, "fp16")
    slider.press("End")
    now = shown(chapter)
    check_shown(course, now, -1e4, "fp16", causal, exponent=6)
    assert set(now["states"]) == {"nan"}


@pytest.mark.slow
@pytest.mark.browser
def test_cells_are_toggled_by_mouse_and_keys(chapter, course):
    pick(chapter, "causal")
    mask = np.array(figure.PRESETS[1]["mask"])
    cell = chapter.locator(f"{FIGURE} .abh-mask tbody tr").nth(2).locator("button").nth(4)
    cell.click()
    mask[2, 4] = True
    check_shown(course, shown(chapter), -1e9, "fp32", mask)
    assert cell.get_attribute("aria-label") == "query chased, key mouse: may attend"
    chapter.keyboard.press("ArrowUp")
    chapter.keyboard.press("ArrowLeft")
    chapter.keyboard.press("Space")
    mask[1, 3] = True
    check_shown(course, shown(chapter), -1e9, "fp32", mask)
    chapter.locator(f"{FIGURE} .abh-reset").click()
    check_shown(course, shown(chapter), -1e9, "fp32", figure.PRESETS[1]["mask"])
    assert chapter.locator(f"{FIGURE} .abh-reset").is_disabled()
    # one stop for the Tab key in the whole grid
    assert chapter.locator(f"{FIGURE} .abh-cell[tabindex='0']").count() == 1


@pytest.mark.slow
@pytest.mark.browser
def test_a_row_is_shown_step_by_step(chapter, course):
    pick(chapter, "+ (−10⁴)")
    check_steps(course, shown(chapter), 1)
    chapter.locator(f"{FIGURE} .abh-weights input").nth(4).check()
    check_steps(course, shown(chapter), 4)
    chapter.keyboard.press("ArrowUp")
    check_steps(course, shown(chapter), 3)


def check_steps(course, now, i):
    """The steps on show are those of row i, with -10 000 added in fp32."""
    preset = figure.PRESETS[4]
    s, allowed = figure.SCORES[i], preset["mask"][i]
    filled = course["round_to"](np.where(allowed, s, s - 1e4), "fp32")
    columns = {1: s, 2: filled, 3: np.exp(filled - filled.max()), 4: now["rows"][i]["weights"]}
    assert [row[0][2:] for row in now["steps"]] == preset["keys"]
    assert [row[0][0] == "✓" for row in now["steps"]] == allowed.tolist()
    for place, values in columns.items():
        found = [float(row[place].replace("−", "-")) for row in now["steps"]]
        np.testing.assert_allclose(found, values, rtol=1e-3 if place > 2 else 2e-6, atol=1e-30)


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(browser, site):
    assert figure_tools.fits_a_phone(browser, site + "/book/05-masking.html", FIGURE)

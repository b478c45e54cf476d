"""The figures of chapter 05 compute what the chapter's own Python computes, and round as NumPy
and torch round.
"""

import json

import numpy as np
import pytest
import torch
from figures import BOOK, testing
from figures import masking as figure

FIGURE = ".abh-masking"
TEXT = figure.TEXT
KINDS = figure.FORMATS[1:]  # the first is Python's own
STEPS = len(TEXT["step_names"])
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
    """The functions of the chapter's two pages, taken from the pages themselves."""
    return testing.of_chapter("05-masking") | testing.of_chapter("05-masking-deeper")


def hard_numbers():
    """Numbers where rounding goes wrong: ties, subnormals, the edges of each format, NaN and
    infinity.
    """
    rng = np.random.default_rng(20261122)
    x = rng.normal(size=4000) * 10.0 ** rng.uniform(-50, 42, size=4000)
    edges = []
    for bits, low, high in ((24, -126, 127), (8, -126, 127), (11, -14, 15)):
        for power in (low - bits, low - bits + 1, low - bits + 2, low - 1, low, 0, high, high + 1):
            for steps in range(5):  # halves, quarters and a hair beside them
                tie = 2.0**power * (1 + steps * 2.0 ** (-bits - 1))
                edges += [
                    tie,
                    np.nextafter(tie, np.inf),
                    np.nextafter(tie, 0),
                    2 * tie - 2.0**power,
                ]
    edges = np.array(edges)
    return np.concatenate(
        [x, edges, -edges, [0.0, -0.0, np.inf, -np.inf, np.nan, -1e9, -1e6, -1e4, 65519.99, 65520]]
    )


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
    answers = testing.in_node(tmp_path, "masking", expression, cases)
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
        cases.append(
            {"s": s.tolist(), "allowed": allowed.tolist(), "fill": fill, "kind": KINDS[i % 3]}
        )
    cases.append(
        {"s": [1e30, -1e30, 5.0], "allowed": [True, False, False], "fill": -np.inf, "kind": "bf16"}
    )
    cases.append({"s": [1e6, 2.0], "allowed": [True, True], "fill": None, "kind": "fp16"})
    return cases


def rows_in_node(tmp_path, cases):
    sent = [
        {**c, "fill": None if c["fill"] is None else str(c["fill"]).replace("inf", "Infinity")}
        for c in cases
    ]
    names = ", ".join(f"{name}: {WRITE % f'r.{name}'}" for name in ROWS[1:])
    row = (
        "m.filledRow(c.s, c.allowed, c.fill === null ? null : Number(c.fill), c.kind, c.shift "
        "?? true)"
    )
    return testing.in_node(tmp_path, "masking", f"((r) => ({{ {names} }}))({row})", sent)


def test_rows_equal_the_chapter(course, tmp_path):
    cases = random_rows()
    exact = 0
    seen = set()
    for case, answer in zip(cases, rows_in_node(tmp_path, cases), strict=True):
        s, allowed = np.array(case["s"]), np.array(case["allowed"])
        expected = course["filled_weights"](s, allowed, case["fill"], case["kind"])
        found = numbers(answer["weights"])
        # exp of node and of NumPy may differ in a double's last bit: then a rounding may fall to
        # the other side
        exact += np.array_equal(found, expected, equal_nan=True)
        bits, low, _ = course["FORMATS"][case["kind"]]
        np.testing.assert_allclose(
            found, expected, rtol=4 * 2.0**-bits, atol=2.0 ** (low - bits + 2)
        )
        seen |= {
            (
                case["kind"],
                "nan" if np.isnan(found).any() else "leak" if found[~allowed].any() else "fine",
            )
        }
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
        # a double rounds once to bfloat16, torch goes through float32
        assert rounded or case["kind"] == "bf16"
        theirs, ours = torch.softmax(filled.double(), -1).numpy(), numbers(answer["weights"])
        assert np.array_equal(np.isnan(theirs), np.isnan(ours))
        bits = course["FORMATS"][case["kind"]][0]
        # the difference t - max is rounded, by up to half of 2**(1 - bits) times itself, 32 where
        # weights are not 0
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


def test_with_doubles_the_guard_is_the_chapters_softmax(course, tmp_path):
    """Without a shift, as the chapter does it by hand; the unguarded row is the same, or NaN
    where it is empty.
    """
    rng = np.random.default_rng(11)
    cases = []
    for _ in range(60):
        n = int(rng.integers(1, 7))
        case = {
            "s": rng.normal(size=n).tolist(),
            "allowed": (rng.random(n) < 0.5).tolist(),
            "kind": "fp64",
            "shift": False,
        }
        cases += [{**case, "fill": None}, {**case, "fill": -np.inf}]
    answers = rows_in_node(tmp_path, cases)
    for case, answer in zip(cases, answers, strict=True):
        allowed = np.array(case["allowed"])
        expected = course["masked_weights"](np.array(case["s"]), allowed)
        if case["fill"] is not None and not allowed.any():
            expected = np.full(len(allowed), np.nan)
        found = numbers(answer["weights"])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert not found[~allowed].any() or np.isnan(found).all()
        filled = numbers(answer["filled"])
        assert (
            np.array_equal(filled[allowed], np.array(case["s"])[allowed])
            and (filled[~allowed] == -np.inf).all()
        )


def test_doubles_are_not_rounded(tmp_path):
    x = hard_numbers()
    (answer,) = testing.in_node(
        tmp_path,
        "masking",
        WRITE % f"Array.from({READ}).map((v) => m.roundTo(v, 'fp64'))",
        [{"x": halves(x)}],
    )
    assert same(numbers(answer), x)


def test_verdicts(tmp_path):
    cases = [
        {"w": [0.5, 0.5], "a": [True, True], "kind": "fine", "leak": 0},
        {"w": [0, 0], "a": [False, False], "kind": "empty", "leak": 0},
        {"w": [0.25, 0.75], "a": [False, True], "kind": "leaks", "leak": 0.25},
        {"w": ["NaN", "NaN"], "a": [False, True], "kind": "nan", "leak": None},
    ]
    for case, answer in zip(
        cases,
        testing.in_node(tmp_path, "masking", "m.verdict(c.w.map(Number), c.a)", cases),
        strict=True,
    ):
        assert answer == {"kind": case["kind"], "leak": case["leak"]}


def test_numbers_are_short(tmp_path):
    written = {
        "1.3": "1.3",
        "1.0986122886681098": "1.099",
        "-9998.6142578125": "−9998.6",
        "-1e9": "−1e9",
        "-998244352": "−9.98e8",
        "0": "0",
        "0.99999": "1",
        "0.00012": "<.001",
        "-Infinity": "−∞",
        "NaN": "NaN",
        "0.367879441": "0.368",
    }
    answers = testing.in_node(tmp_path, "masking", "m.short(Number(c))", list(written))
    assert answers == list(written.values())
    assert max(map(len, answers)) <= 7


def test_presets_follow_the_chapter(course):
    words = np.array([word != "[pad]" for word in figure.WORDS])
    causal = np.array([course["sees"](i, 4, 4) for i in range(4)])
    presets = figure.PRESETS
    assert np.array_equal(presets["causal"], causal)
    assert np.array_equal(presets["padding"], [words] * 4)
    assert np.array_equal(presets["both"], causal & words)
    assert np.array_equal(presets["cache"], [course["sees"](i, 2, 4) & words for i in range(2)])
    texts = [course["same_text"](i, figure.TEXTS) for i in range(4)]
    assert np.array_equal(presets["packed"], causal & texts)
    assert presets["open"].all()
    assert np.array_equal(words, course["real"](3, 4)[::-1])


def test_the_other_word_changes_its_own_row_column_and_value_only():
    assert np.array_equal(figure.OTHER_POWERS[:-1, :-1], figure.POWERS[:-1, :-1])
    assert (figure.OTHER_POWERS[:-1, -1] != figure.POWERS[:-1, -1]).all()
    assert (
        np.array_equal(figure.OTHER_V[:-1], figure.V[:-1])
        and (figure.OTHER_V[-1] != figure.V[-1]).all()
    )


def test_the_buttons_have_names():
    assert len(TEXT["tries"]) == len(figure.TRIES) and len(TEXT["machine_tries"]) == len(
        figure.MACHINE_TRIES
    )


@pytest.mark.parametrize("page", ["05-masking", "05-masking-deeper"])
def test_the_text_names_every_button(page):
    text = (BOOK / f"{page}.md").read_text(encoding="utf8")
    names = TEXT["machine_tries"] if "deeper" in page else [*TEXT["tries"], TEXT["swap"]]
    for number, name in enumerate(names, 1):
        assert f"{number}. *{name}*" in text, name


def test_the_figure_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="4 words want scores"):
        figure.MaskingFigure(scores=np.zeros((2, 4)))
    with pytest.raises(ValueError, match="as many values"):
        figure.MaskingFigure(values=figure.V[:2])
    with pytest.raises(ValueError, match="1 to 4 rows of 4"):
        figure.MaskingFigure(presets={"causal": np.ones((5, 4))})
    with pytest.raises(ValueError, match="a preset of 4 words wants 5"):
        figure.MaskingFigure(preset_words={"packed": figure.PACKED})


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows, as exact numbers and as text."""
    found = page.evaluate("""() => {
      const root = document.querySelector(".abh-masking");
      const each = (row, f) => [...row.querySelectorAll(".abh-square")].map(f);
      const rows = [...root.querySelectorAll(".abh-mask tbody tr")];
      return {
        rows: root.dataset.rows, step: Number(root.dataset.step),
        mask: rows.map((r) => each(r, (b) => b.getAttribute("aria-pressed") === "true")),
        cells: rows.map((r) => each(r, (b) => b.textContent)),
        framed: rows.map((r) => each(r, (b) => b.classList.contains("abh-leak"))),
        shades: rows.map((r) => each(r, (b) => parseFloat(b.style.getPropertyValue("--a")))),
        names: rows.map((r) => r.querySelector("th").textContent),
        last: rows.map((r) => r.querySelector(".abh-last").firstChild?.textContent ?? ""),
        changes: rows.map((r) => r.querySelector(".abh-last small")?.textContent ?? ""),
        states: rows.map((r) => r.dataset.state),
      };
    }""")
    exact = [
        {
            name: np.array([float(x.replace("Infinity", "inf")) for x in row[name]])
            for name in (*ROWS, "output")
        }
        for row in json.loads(found["rows"])
    ]
    return {**found, "rows": exact}


def number(text):
    """The number that is written in a square."""
    return {"NaN": np.nan, "−∞": -np.inf, "<.001": 0.00025}.get(text) or float(
        text.replace("−", "-")
    )


def check_shown(course, now, mask, fill=None, kind="fp64", exponent=0.0, other=False):
    """Everything on show follows from the mask, the fill, the format, the scale and the last
    word.
    """
    mask = np.array(mask, dtype=bool)
    assert np.array_equal(now["mask"], mask)
    powers, values = (figure.OTHER_POWERS, figure.OTHER_V) if other else (figure.POWERS, figure.V)
    scores = np.log(powers)[-len(mask) :] * 10**exponent
    for i, allowed in enumerate(mask):
        if kind == "fp64":
            expected = course["masked_weights"](scores[i], allowed)
            if fill is not None and not allowed.any():
                expected = np.full(4, np.nan)
            filled, exps = (
                np.where(allowed, scores[i], -np.inf),
                np.where(allowed, np.exp(scores[i]), 0),
            )
            rtol = 1e-12
        else:
            expected = course["filled_weights"](scores[i], allowed, fill, kind)
            rtol = 4 * 2.0 ** -course["FORMATS"][kind][0]
            filled = exps = None
        one = now["rows"][i]
        np.testing.assert_allclose(one["weights"], expected, rtol=rtol, atol=1e-40)
        np.testing.assert_allclose(one["output"], expected @ values, rtol=10 * rtol)
        leaks = ~allowed & (expected > 0)
        if np.isnan(expected).any():
            state = "nan"
        else:
            state = "leaks" if leaks.any() else "fine" if allowed.any() else "empty"
        assert now["states"][i] == state
        weighed = now["step"] >= 3
        assert now["framed"][i] == (leaks & weighed).tolist()
        np.testing.assert_allclose(
            now["shades"][i], 100 * np.nan_to_num(expected) * weighed, atol=0.51
        )
        on_show = [scores[i], filled, exps, expected, expected][now["step"]]
        if on_show is not None:
            for cell, x in zip(now["cells"][i], on_show, strict=True):
                np.testing.assert_allclose(number(cell), x, atol=0.000501, rtol=1e-4)
    return now


@pytest.fixture(scope="module")
def opened(browser, site):
    """Both pages of the chapter, opened once: they are long."""
    pages = {}
    for name in ("05-masking", "05-masking-deeper"):
        pages[name] = browser.new_page(viewport={"width": 1280, "height": 900})
        pages[name].goto(f"{site}/book/{name}.html")
        pages[name].locator(f"{FIGURE} .abh-square").first.scroll_into_view_if_needed(
            timeout=20_000
        )
    yield pages
    for page in pages.values():
        page.close()


def as_first(page):
    reset = page.locator(FIGURE).get_by_role("button", name=TEXT["reset"])
    if reset.is_enabled():
        reset.click()
    return page


@pytest.fixture
def chapter(opened):
    """The core page, its figure as it was at first."""
    return as_first(opened["05-masking"])


@pytest.fixture
def deeper(opened):
    """The page that goes deeper, its figure as it was at first, but at the step of the weights."""
    page = as_first(opened["05-masking-deeper"])
    pick(page, "4 Weights")
    return page


def pick(page, name):
    page.locator(FIGURE).get_by_role("radio", name=name, exact=True).check(force=True)


def press(page, name):
    page.locator(FIGURE).get_by_role("button", name=name).click()


@pytest.mark.slow
@pytest.mark.browser
def test_five_steps_lead_from_scores_to_outputs(chapter, course):
    causal = figure.PRESETS["causal"]
    words = [
        "How well each query",
        "6 of 16",
        "add nothing",
        "Closed squares have weight 0",
        "Each value times",
    ]
    for step, sentence in enumerate(words):
        testing.says(chapter, sentence)
        now = check_shown(course, shown(chapter), causal)
        assert now["step"] == step
        if step < STEPS - 1:
            press(chapter, TEXT["next"])
    assert now["last"][0] == "(8, 8)" and now["last"][2] == "(4.667, 3)"
    assert chapter.locator(FIGURE).get_by_role("button", name=TEXT["next"]).is_disabled()
    press(chapter, TEXT["back"])
    assert shown(chapter)["last"] == ["1"] * 4
    pick(chapter, "3 Exponentials")
    now = shown(chapter)
    assert now["cells"][2] == ["2", "3", "1", "0"] and now["last"] == ["4", "6", "6", "8"]


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course):
    sentences = [
        "Nothing is closed",
        "weight 0, exactly",
        "weight 0, exactly",
        "“[pad]” may see nothing: 0 divided by 0",
        "“[pad]” may see nothing, and gets 0",
        "weight 0, exactly",
        "weight 0, exactly",
    ]
    names = []
    for name, wanted, sentence in zip(TEXT["tries"], figure.TRIES, sentences, strict=True):
        press(chapter, name)
        fill = figure.FILLS[wanted["fill"]]
        now = check_shown(course, shown(chapter), figure.PRESETS[wanted["preset"]], fill)
        testing.says(chapter, sentence)
        pressed = chapter.locator(f"{FIGURE} .abh-tries [aria-pressed=true]").all_text_contents()
        assert len(pressed) == 1 and pressed[0].endswith(name)
        names.append(now["names"])
    assert names == [figure.WORDS] * 5 + [["chased", "mouse"], figure.PACKED]
    press(chapter, TEXT["reset"])
    assert shown(chapter)["step"] == 0
    assert chapter.locator(FIGURE).get_by_role("button", name=TEXT["reset"]).is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_the_example_by_hand_is_in_it(chapter):
    press(chapter, "Guard the empty row")
    pick(chapter, "5 Output")
    now = shown(chapter)
    assert now["cells"][2:] == [["0", "0.75", "0.25", "0"], ["0", "0.2", "0.6", "0.2"]]
    assert now["last"] == ["(0, 0)", "(4, 0)", "(3, 0.5)", "(1.2, 2)"]


@pytest.mark.slow
@pytest.mark.browser
def test_another_last_word_shows_whether_the_future_leaks(chapter, course):
    press(chapter, TEXT["swap"])
    now = check_shown(course, shown(chapter), figure.PRESETS["causal"], other=True)
    assert now["names"][-1] == figure.OTHER and now["changes"] == [
        "same",
        "same",
        "same",
        "changed",
    ]
    testing.says(chapter, "“dog” changed; the rest is the same to the last bit")
    chapter.locator(f"{FIGURE} .abh-mask tbody tr").nth(1).locator("button").nth(3).click()
    assert shown(chapter)["changes"] == ["same", "changed", "same", "changed"]
    press(chapter, "All open")
    testing.says(chapter, "every output has changed")
    press(chapter, TEXT["swap"])
    assert shown(chapter)["changes"] == [""] * 4


@pytest.mark.slow
@pytest.mark.browser
def test_packed_texts_have_their_own_words_and_do_not_meet(chapter, course):
    press(chapter, "Two texts, packed")
    press(chapter, TEXT["swap"])
    now = check_shown(course, shown(chapter), figure.PRESETS["packed"], other=True)
    assert now["names"] == [*figure.PACKED[:-1], figure.PACKED_OTHER]
    testing.says(chapter, f"With “{figure.PACKED_OTHER}” for “{figure.PACKED[-1]}”")
    assert not np.array(now["mask"])[2:, :2].any()
    press(chapter, "Causal")
    now = check_shown(course, shown(chapter), figure.PRESETS["causal"], other=True)
    assert now["names"] == [*figure.WORDS[:-1], figure.OTHER]


@pytest.mark.slow
@pytest.mark.browser
def test_squares_are_toggled_by_mouse_and_keys(chapter, course):
    mask = figure.PRESETS["causal"].copy()
    square = chapter.locator(f"{FIGURE} .abh-mask tbody tr").nth(2).locator("button").nth(3)
    square.click()
    mask[2, 3] = True
    now = check_shown(course, shown(chapter), mask)
    assert now["step"] == 1  # it shows what became of the square
    assert square.get_attribute("aria-label") == "query chased, key mouse: may attend; 1.386"
    for key in ("ArrowUp", "ArrowLeft", "Space"):
        chapter.keyboard.press(key)
    mask[1, 2] = True
    check_shown(course, shown(chapter), mask)
    for _ in range(5):  # no further than the edge
        chapter.keyboard.press("ArrowLeft")
    chapter.keyboard.press("Space")
    mask[1, 0] = False
    check_shown(course, shown(chapter), mask)
    assert chapter.url.endswith("05-masking.html")  # the arrows turned no page
    # one stop for the Tab key in the whole grid
    assert chapter.locator(f"{FIGURE} .abh-square[tabindex='0']").count() == 1


@pytest.mark.slow
@pytest.mark.browser
def test_every_fill_and_format_shows_pythons_numbers(deeper, course):
    fills = [TEXT["guarded"], "−∞", "−10⁹", "−10⁶", "−10⁴"]
    for name, fill in zip(fills, figure.FILLS, strict=True):
        pick(deeper, name)
        for kind in KINDS:
            pick(deeper, kind)
            check_shown(course, shown(deeper), figure.PRESETS["both"], fill, kind)


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_on_the_page_that_goes_deeper(deeper, course):
    states = ["nan", "empty", "leaks", "nan", "leaks", "leaks", "leaks"]
    for name, wanted, state in zip(
        TEXT["machine_tries"], figure.MACHINE_TRIES, states, strict=True
    ):
        press(deeper, name)
        fill, kind = figure.FILLS[wanted["fill"]], figure.FORMATS[wanted["kind"]]
        now = check_shown(
            course, shown(deeper), figure.PRESETS["both"], fill, kind, wanted["exponent"]
        )
        assert now["states"][0] == state
    assert now["states"].count("leaks") >= 3  # padding and the future
    press(deeper, "−10⁹ in 32 bits")
    assert shown(deeper)["cells"][0] == ["0.25"] * 4
    press(deeper, "−10⁴ in 32 bits")
    np.testing.assert_allclose(
        [float(x) for x in shown(deeper)["cells"][0]], [0.5, 0.125, 0.25, 0.125], atol=1e-3
    )


@pytest.mark.slow
@pytest.mark.browser
def test_the_slider_makes_a_small_fill_leak(deeper, course):
    press(deeper, "−10⁴ in 32 bits")
    slider = deeper.locator(f"{FIGURE} input[type=range]")
    slider.press("Home")  # a tenth
    for _ in range(20):
        deeper.keyboard.press("ArrowRight")
    now = check_shown(course, shown(deeper), figure.PRESETS["both"], -1e4, "fp32", exponent=4)
    assert "leaks" not in now["states"][1:]
    deeper.keyboard.press("ArrowRight")
    now = check_shown(course, shown(deeper), figure.PRESETS["both"], -1e4, "fp32", exponent=4.25)
    assert now["states"][1] == "leaks"
    pick(deeper, "fp16")
    slider.press("End")
    now = check_shown(course, shown(deeper), figure.PRESETS["both"], -1e4, "fp16", exponent=6)
    assert set(now["states"]) == {"nan"}

"""The figure of chapter 02 computes what the chapter's own Python computes, under node and in
the browser.
"""

import json

import numpy as np
import pytest
from figures import scaling as figure
from figures import testing

PAGE = "02-scaling"
FIGURE = ".abh-scaling"
DIVISORS = [lambda d_k: 1.0, np.sqrt, float]  # in the order of the figure's choice


def in_python(course, d_k, size, kind, chosen):
    """All that the figure shows of one state, from the chapter's functions and from NumPy."""
    K = size * figure.K[:, :d_k]
    divisor = DIVISORS[kind](d_k)

    def rows(divisor):
        return np.array([course["scores"](size * q[:d_k], K, divisor) for q in figure.Q])

    S = rows(divisor)
    weights = course["softmax"](S[chosen])
    by_divisor = [[course["softmax"](s) for s in rows(each(d_k))] for each in DIVISORS]
    return {
        "scores": S[chosen],
        "weights": weights,
        "entropy": course["entropy"](weights),
        "gradient": course["gradient_size"](weights),
        "spread": S.std(),
        "predicted": size**2 * np.sqrt(d_k) / divisor,
        "gradients": [np.median([course["gradient_size"](a) for a in A]) for A in by_divisor],
    }


# ---- under node
# ------------------------------------------------------------------------------------------


def test_rows_of_weights_equal_the_chapter(course, tmp_path):
    rng = np.random.default_rng(20261121)
    cases = []
    for _ in range(200):
        n, d_k, divisor = rng.integers(1, 20), rng.integers(1, 70), 10 ** rng.uniform(-2, 3)
        q, K = rng.normal(size=d_k), rng.normal(size=(n, d_k))
        cases.append({"q": q.tolist(), "K": K.tolist(), "divisor": divisor, "d_k": int(d_k)})
    cases += [
        # one-hot to the last bit
        {"q": [1.0], "K": [[1e4], [0.0], [-1e4]], "divisor": 1.0, "d_k": 1},
        {"q": [0.0, 0.0], "K": [[1.0, 2.0]] * 7, "divisor": 0.1, "d_k": 2},  # even
        {"q": [3.0], "K": [[5.0]], "divisor": 2.0, "d_k": 1},  # a single key
    ]
    answers = testing.in_node(
        tmp_path, "scaling", "m.row(m.scoresAtStops(c.q, c.K, [c.d_k])[0], 1 / c.divisor)", cases
    )
    for case, answer in zip(cases, answers, strict=True):
        s = course["scores"](np.array(case["q"]), np.array(case["K"]), case["divisor"])
        a = course["softmax"](s)
        expected = {
            "scores": s,
            "weights": a,
            "entropy": course["entropy"](a),
            "gradient": course["gradient_size"](a),
        }
        for name, value in expected.items():
            # Scores differ in their last bits; at a size of 1e5 that is 1e-10 in an exponent.
            np.testing.assert_allclose(answer[name], value, rtol=1e-8, atol=1e-12, err_msg=name)


def test_the_gradient_is_what_finite_differences_give(course):
    rng = np.random.default_rng(7)
    for n in (1, 2, 5, 16):
        s, step = rng.normal(size=n) * 2, 1e-5
        slopes = [
            (course["softmax"](s + step * e) - course["softmax"](s - step * e)) / (2 * step)
            for e in np.eye(n)
        ]
        assert course["gradient_size"](course["softmax"](s)) == pytest.approx(
            np.linalg.norm(slopes), abs=1e-8
        )


def test_scores_at_every_stop(course, tmp_path):
    cases = [{"q": q.tolist(), "K": figure.K.tolist(), "stops": figure.STOPS} for q in figure.Q[:6]]
    answers = testing.in_node(tmp_path, "scaling", "m.scoresAtStops(c.q, c.K, c.stops)", cases)
    for q, answer in zip(figure.Q, answers, strict=False):
        expected = [course["scores"](q[:d_k], figure.K[:, :d_k]) for d_k in figure.STOPS]
        np.testing.assert_allclose(answer, expected, atol=1e-9)


def test_the_page_gets_the_very_numbers(tmp_path):
    widget = figure.ScalingFigure(figure.Q, figure.K)
    case = {"rows": widget.rows, "d": widget.shape[2], "step": widget.step}
    (rows,) = testing.in_node(tmp_path, "scaling", "m.unpack(c.rows, c.d, c.step)", [case])
    assert (np.array(rows) == np.vstack([figure.Q, figure.K])).all()
    assert abs(figure.Q.std() - 1) < 0.02 and abs(figure.K.std() - 1) < 0.02


def test_divisors(tmp_path):
    cases = [{"kind": kind, "d_k": d_k} for kind in range(3) for d_k in figure.STOPS]
    answers = testing.in_node(tmp_path, "scaling", "m.divisorOf(c.kind, c.d_k)", cases)
    np.testing.assert_allclose(answers, [DIVISORS[c["kind"]](c["d_k"]) for c in cases])


def test_spread_median_and_bins(tmp_path):
    rng = np.random.default_rng(3)
    cases = [
        (10 ** rng.uniform(-1, 1.5) * rng.normal(size=rng.integers(1, 60))).tolist()
        for _ in range(60)
    ]
    answers = testing.in_node(
        tmp_path, "scaling", "[m.spread(c), m.median(c), m.histogram(c, 30)]", cases
    )
    for case, (spread, median, counts) in zip(cases, answers, strict=True):
        np.testing.assert_allclose([spread, median], [np.std(case), np.median(case)], atol=1e-12)
        edges = np.concatenate([[-np.inf], np.arange(-29.5, 30), [np.inf]])
        assert counts == np.histogram(case, edges)[0].tolist()


def test_bins_are_as_wide_as_the_spread_needs(tmp_path):
    cases = [200.0, 1.0, 0.9, 0.89, 0.125, 0.0225]
    assert testing.in_node(tmp_path, "scaling", "m.binWidth(c)", cases) == pytest.approx(
        [1, 1, 1, 0.1, 0.1, 0.01]
    )


def test_the_predicted_shares_are_those_of_a_normal_distribution(tmp_path):
    from statistics import NormalDist

    cases = [0.05, 0.2, 1.0, 3.7, 22.6, 200.0]
    answers = testing.in_node(tmp_path, "scaling", "m.normalShares(c, 30)", cases)
    for deviation, shares in zip(cases, answers, strict=True):
        below = [0.0, *(NormalDist(0, deviation).cdf(x) for x in np.arange(-29.5, 30)), 1.0]
        np.testing.assert_allclose(shares, np.diff(below), atol=1e-6)


@pytest.mark.parametrize(
    ("Q", "K", "more", "message"),
    [
        (figure.Q, figure.K[:, :100], {}, "same d"),
        (figure.Q, figure.K, {"d_k": 65}, "d_k = 65"),
        (figure.Q[:, :100], figure.K[:, :100], {}, "100 at most"),
        (figure.Q + 0.01, figure.K, {}, "multiples"),
        (10 * figure.Q, figure.K, {}, "multiples"),
    ],
)
def test_the_figure_refuses_what_it_cannot_show(Q, K, more, message):
    with pytest.raises(ValueError, match=message):
        figure.ScalingFigure(Q, K, **more)


# ---- in the browser
# --------------------------------------------------------------------------------------


def state(page):
    return json.loads(page.locator(FIGURE).get_attribute("data-state"))


def check_shown(page, course, **wanted):
    """The figure is in the state that is wanted, and all it shows follows from that."""
    now = state(page)
    for name, value in wanted.items():
        assert now[name] == pytest.approx(value), name
    expected = in_python(course, now["d_k"], now["size"], now["kind"], now["chosen"])
    for name, value in expected.items():
        np.testing.assert_allclose(now[name], value, rtol=1e-8, atol=1e-12, err_msg=name)
    texts = [text.replace("\u2212", "-") for text in page.locator(f"{FIGURE} dd").all_inner_texts()]
    shown = [expected[name] for name in ("spread", "predicted")] + [
        expected["weights"].max(),
        expected["entropy"],
    ]
    for text, value in zip(texts[:4], shown, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text) == pytest.approx(value, abs=0.501 * 10**-digits)
    # the bars' heights are in proportion to the weights
    heights = page.locator(f"{FIGURE} .abh-w").evaluate_all(
        "(bars) => bars.map((b) => Number(b.getAttribute('height')))"
    )
    assert len(heights) == len(figure.K)
    np.testing.assert_allclose(heights, np.maximum(0.6, 108 * expected["weights"]), atol=0.01)
    return now


def move(page, number, value):
    """Put a slider to a value, as dragging it does."""
    page.locator(f"{FIGURE} input[type=range]").nth(number).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', { "
        "bubbles: true })); }",
        value,
    )


@pytest.mark.slow
@pytest.mark.browser
def test_the_buttons_go_from_short_vectors_to_larger_entries(chapter, course):
    # as the page opens it: the first of them
    check_shown(chapter, course, d_k=4, size=1, kind=0, chosen=7)
    buttons = chapter.locator(f"{FIGURE} .abh-tries button")
    most, gradients = [], []
    for i, wanted in enumerate(figure.TRIES):
        buttons.nth(i).click()
        now = check_shown(
            chapter, course, d_k=wanted["d_k"], size=wanted["size"], kind=wanted["divisor"]
        )
        pressed = buttons.evaluate_all("(all) => all.map((b) => b.getAttribute('aria-pressed'))")
        assert [p == "true" for p in pressed] == [j == i for j in range(len(figure.TRIES))]
        most.append(max(now["weights"]))
        gradients.append(now["gradients"][now["kind"]])
    assert (
        most[0] < 0.5 and most[1] > 0.95 and 0.2 < most[2] < 0.3 and most[3] < 0.1 and most[4] > 0.8
    )
    assert (
        gradients[1] < 0.5 * gradients[0]
        and gradients[2] > 2 * gradients[1]
        and gradients[4] < 0.5 * gradients[2]
    )
    chapter.locator(f"{FIGURE} .abh-summary", has_text="length 64").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_each_divisor_shows_pythons_numbers(chapter, course):
    move(chapter, 0, figure.STOPS.index(64))
    radios = chapter.locator(f"{FIGURE} input[type=radio]")
    spreads = []
    for kind in (1, 2, 0):
        radios.nth(kind).check(force=True)
        spreads.append(check_shown(chapter, course, kind=kind, d_k=64)["spread"])
    assert spreads[1] < spreads[0] < spreads[2]


@pytest.mark.slow
@pytest.mark.browser
def test_the_sliders_show_pythons_numbers(chapter, course):
    for at in (0, 5, len(figure.STOPS) - 1):
        move(chapter, 0, at)
        check_shown(chapter, course, d_k=figure.STOPS[at])
    for size in (0.5, 3):
        move(chapter, 1, size)
        check_shown(chapter, course, d_k=512, size=size)
    named = chapter.locator(f"{FIGURE} input[type=range]").first
    assert named.get_attribute("aria-valuetext") == "512"


@pytest.mark.slow
@pytest.mark.browser
def test_keys_are_enough(chapter, course):
    chapter.locator(f"{FIGURE} .abh-tries button").nth(1).focus()
    chapter.keyboard.press("Enter")
    check_shown(chapter, course, kind=0, d_k=64)
    chapter.locator(f"{FIGURE} input[type=radio]").first.focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, course, kind=1)
    chapter.keyboard.press("Tab")
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, course, kind=1, d_k=96)
    chapter.keyboard.press("Tab")
    chapter.keyboard.press("ArrowLeft")
    check_shown(chapter, course, kind=1, d_k=96, size=0.9)
    chapter.keyboard.press("Tab")
    chapter.keyboard.press("Enter")
    check_shown(chapter, course, kind=1, d_k=96, size=0.9, chosen=8)


@pytest.mark.slow
@pytest.mark.browser
def test_other_queries_come_round(chapter, course):
    button = chapter.locator(f"{FIGURE} .abh-another")
    button.click()
    check_shown(chapter, course, chosen=8)
    button.evaluate(
        "(button, times) => { for (let i = 0; i < times; i++) button.click(); }", len(figure.Q) - 1
    )
    check_shown(chapter, course, chosen=7)
    assert chapter.locator(f"{FIGURE} h4").nth(1).inner_text() == "Weights of query 8"


@pytest.mark.slow
@pytest.mark.browser
def test_pictures_are_described(chapter):
    chapter.locator(f"{FIGURE} input[type=radio]").nth(1).check(force=True)
    labels = chapter.locator(f"{FIGURE} svg").evaluate_all(
        "(all) => all.map((svg) => svg.getAttribute('aria-label'))"
    )
    assert len(labels) == 3
    assert all(label and "{" not in label and "NaN" not in label for label in labels)
    assert f"{state(chapter)['spread']:.2f}" in labels[0]

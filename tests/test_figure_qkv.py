"""The figure of chapter 01 computes what the chapter's own Python computes, under node and in the browser."""

import figure_tools
import numpy as np
import pytest
from figures import qkv as figure

Q, K, V = figure.X @ figure.W_q, figure.X @ figure.W_k, figure.X @ figure.W_v
FIGURE = ".abh-qkv"


@pytest.fixture(scope="module")
def course():
    """The functions of the chapter, taken from the page itself."""
    return figure_tools.of_chapter("01-qkv")


def in_python(course, q, K, V):
    scores = course["scores"](q, K)
    return {"scores": scores, "weights": course["softmax"](scores), "output": course["soft_lookup"](q, K, V)}


def random_cases(number=200):
    rng = np.random.default_rng(20261121)
    cases = []
    for _ in range(number):
        n, d_k, d_v = rng.integers(1, 9), rng.integers(1, 6), rng.integers(1, 6)
        size = 10 ** rng.uniform(-3, 2.5)  # up to scores that overflow an unprotected exp
        cases.append(
            {
                "q": (size * rng.normal(size=d_k)).tolist(),
                "K": rng.normal(size=(n, d_k)).tolist(),
                "V": rng.normal(size=(n, d_v)).tolist(),
            }
        )
    return cases


def test_attend_equals_the_chapter(course, tmp_path):
    cases = random_cases()
    cases += [{"q": q.tolist(), "K": K.tolist(), "V": V.tolist()} for q in Q]
    answers = figure_tools.in_node(tmp_path, "qkv", "m.attend(c.q, c.K, c.V)", cases)
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        expected = in_python(course, *(np.array(case[name]) for name in "qKV"))
        for name, value in expected.items():
            assert np.shape(answer[name]) == np.shape(value)
            np.testing.assert_allclose(answer[name], value, rtol=1e-9, atol=1e-6, err_msg=name)


def test_partial_sums_end_at_the_output(course, tmp_path):
    cases = random_cases(50)
    answers = figure_tools.in_node(tmp_path, "qkv", "m.partialSums(m.attend(c.q, c.K, c.V).weights, c.V)", cases)
    for case, sums in zip(cases, answers, strict=True):
        expected = in_python(course, *(np.array(case[name]) for name in "qKV"))["output"]
        assert len(sums) == len(case["K"]) + 1
        np.testing.assert_allclose(sums[-1], expected, atol=1e-6)


def test_hull_holds_every_point(tmp_path):
    rng = np.random.default_rng(5)
    cases = [rng.normal(size=(rng.integers(3, 12), 2)).tolist() for _ in range(50)]
    for points, hull in zip(cases, figure_tools.in_node(tmp_path, "qkv", "m.convexHull(c)", cases), strict=True):
        corners = np.array(hull)
        assert {tuple(c) for c in hull} <= {tuple(p) for p in points}
        for corner, after in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            side, to = after - corner, np.array(points) - corner
            assert (side[0] * to[:, 1] - side[1] * to[:, 0] >= -1e-9).all()


def test_the_figure_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="5 tokens"):
        figure.QKVFigure(figure.TOKENS, Q[:4], K, V)


# ---- in the browser --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: scores, weights, output, as exact numbers and as text, and the query."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-qkv");
      const rows = [...root.querySelectorAll("tbody tr")];
      const number = (text) => Number(text.replace("\\u2212", "-"));
      return {
        scores: rows.map((r) => Number(r.dataset.score)), weights: rows.map((r) => Number(r.dataset.weight)),
        output: JSON.parse(root.dataset.output),
        score_text: rows.map((r) => number(r.querySelector(".abh-score").textContent)),
        weight_text: rows.map((r) => number(r.querySelector(".abh-weight").textContent)),
        query: [...root.querySelectorAll(".abh-slider output")].map((o) => number(o.textContent)),
        bars: rows.map((r) => parseFloat(r.querySelector(".abh-bar").style.width)),
      };
    }""")


def check_shown(course, now, q):
    """Everything on show follows from the query q."""
    expected = in_python(course, np.array(q), K, V)
    for name, value in expected.items():
        np.testing.assert_allclose(now[name], value, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(now["score_text"], expected["scores"], atol=0.00501)
    np.testing.assert_allclose(now["weight_text"], expected["weights"], atol=0.00501)
    np.testing.assert_allclose(now["bars"], 100 * expected["weights"], atol=0.01)


@pytest.fixture
def chapter(page, site):
    page.goto(site + "/book/01-qkv.html")
    page.locator(f"{FIGURE} .abh-handle").scroll_into_view_if_needed(timeout=20_000)
    return page


@pytest.mark.slow
@pytest.mark.browser
def test_every_word_shows_pythons_numbers(chapter, course):
    for i, token in enumerate(figure.TOKENS):
        chapter.locator(FIGURE).get_by_role("radio", name=token, exact=True).check()
        check_shown(course, shown(chapter), Q[i])


@pytest.mark.slow
@pytest.mark.browser
def test_arrow_keys_move_the_query(chapter, course):
    before = shown(chapter)
    chapter.locator(f"{FIGURE} .abh-handle").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "Shift+ArrowDown"):
        chapter.keyboard.press(key)
    q = Q[2] + [-0.1, 0.2 - 0.5]
    check_shown(course, shown(chapter), q)
    assert shown(chapter)["weights"] != before["weights"]
    chapter.locator(f"{FIGURE} .abh-summary", has_text="Your query").wait_for(timeout=3000)
    chapter.locator(f"{FIGURE} .abh-reset").click()
    check_shown(course, shown(chapter), Q[2])


@pytest.mark.slow
@pytest.mark.browser
def test_arrow_keys_choose_another_word(chapter, course):
    chapter.locator(f"{FIGURE} input[type=radio]").nth(2).focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(course, shown(chapter), Q[3])


@pytest.mark.slow
@pytest.mark.browser
def test_dragging_moves_the_query(chapter, course):
    plane = chapter.locator(f"{FIGURE} .abh-stage svg").first.bounding_box()
    handle = chapter.locator(f"{FIGURE} .abh-handle").bounding_box()
    chapter.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    chapter.mouse.down()
    target = (plane["x"] + plane["width"] * 0.3, plane["y"] + plane["height"] * 0.2)
    chapter.mouse.move(*target, steps=5)
    chapter.mouse.up()
    now = shown(chapter)
    # 30 % across and 20 % down a plane from -2.6 to 2.6
    np.testing.assert_allclose(now["query"], [-2.6 + 0.3 * 5.2, 2.6 - 0.2 * 5.2], atol=0.03)
    exact = np.linalg.lstsq(K, np.array(now["scores"]), rcond=None)[0]
    np.testing.assert_allclose(exact, now["query"], atol=0.00501)
    check_shown(course, now, exact)


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(browser, site):
    assert figure_tools.fits_a_phone(browser, site + "/book/01-qkv.html", FIGURE)

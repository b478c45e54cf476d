"""The figure of chapter 01 computes what the chapter's own Python computes, under node and in
the browser.
"""

import numpy as np
import pytest
from figures import qkv as figure
from figures import testing

Q, K, V = figure.X @ figure.W_q, figure.X @ figure.W_k, figure.X @ figure.W_v
STEPS = len(figure.TEXT["step_names"])
PAGE = "01-qkv"
FIGURE = ".abh-qkv"


def in_python(course, q, K, V):
    scores = course["scores"](q, K)
    return {
        "scores": scores,
        "weights": course["softmax"](scores),
        "output": course["soft_lookup"](q, K, V),
    }


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
    answers = testing.in_node(tmp_path, "qkv", "m.attend(c.q, c.K, c.V)", cases)
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        expected = in_python(course, *(np.array(case[name]) for name in "qKV"))
        for name, value in expected.items():
            assert np.shape(answer[name]) == np.shape(value)
            np.testing.assert_allclose(answer[name], value, rtol=1e-9, atol=1e-6, err_msg=name)


def test_partial_sums_end_at_the_output(course, tmp_path):
    cases = random_cases(50)
    answers = testing.in_node(
        tmp_path, "qkv", "m.partialSums(m.attend(c.q, c.K, c.V).weights, c.V)", cases
    )
    for case, sums in zip(cases, answers, strict=True):
        expected = in_python(course, *(np.array(case[name]) for name in "qKV"))["output"]
        assert len(sums) == len(case["K"]) + 1
        np.testing.assert_allclose(sums[-1], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [({"X": figure.X[:2]}, "3 tokens need X"), ({"W_v": figure.W_v.T}, "needs W_v of shape")],
)
def test_the_figure_refuses_sizes_that_do_not_fit(change, match):
    sizes = {"X": figure.X, "W_q": figure.W_q, "W_k": figure.W_k, "W_v": figure.W_v}
    with pytest.raises(ValueError, match=match):
        figure.QKVFigure(figure.WORDS, **sizes | change)


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows at its last step: exact numbers, and the table's text."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-qkv");
      const rows = [...root.querySelectorAll("tbody tr")];
      const text = (node) => node.textContent.replaceAll("\\u2212", "-");
      const cells = (name) => rows.map((r) => text(r.querySelector(`.abh-c-${name}`)));
      return {
        query: JSON.parse(root.dataset.query), step: Number(root.dataset.step),
        scores: rows.map((r) => Number(r.dataset.score)), weights: rows.map((r) => Number(r.dataset.weight)),
        output: JSON.parse(root.dataset.output),
        score_text: cells("score"), power_text: cells("power"), weight_text: cells("weight"),
        part_text: cells("part"), z_text: text(root.querySelector("tfoot .abh-c-part")),
        bars: rows.map((r) => parseFloat(r.querySelector(".abh-bar").style.width)),
      };
    }""")


def number(text):
    """A number of the table; what is too small for its decimals is said to be so."""
    return 0.0 if text == "<0.001" else float(text)


def check_shown(course, now, q):
    """Everything on show at the last step follows from the query q."""
    assert now["step"] == STEPS - 1
    expected = in_python(course, np.array(q, dtype=float), K, V)
    for name, value in expected.items():
        np.testing.assert_allclose(now[name], value, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(
        [float(text) for text in now["score_text"]], expected["scores"], atol=0.00501
    )
    np.testing.assert_allclose(
        [number(text) for text in now["power_text"]],
        np.exp(expected["scores"]),
        rtol=1e-6,
        atol=0.00501,
    )
    np.testing.assert_allclose(
        [number(text) for text in now["weight_text"]], expected["weights"], atol=0.000501
    )
    np.testing.assert_allclose(now["bars"], 100 * expected["weights"], atol=0.01)
    np.testing.assert_allclose(
        [[float(x) for x in text.strip("()").split(", ")] for text in now["part_text"]],
        expected["weights"][:, None] * V,
        atol=0.00501,
    )
    np.testing.assert_allclose(
        [float(x) for x in now["z_text"].strip("()").split(", ")], expected["output"], atol=0.00501
    )


def last_step(page):
    page.locator(FIGURE).get_by_role("radio", name="5 Add").check()


@pytest.mark.slow
@pytest.mark.browser
def test_each_step_fills_its_column_and_says_what_it_does(chapter):
    figure_ = chapter.locator(FIGURE)
    columns = ["key", "score", "power", "weight", "part"]
    for step, words in enumerate(
        ["x W_q = (2, 1)", "2·1 + 1·0 = 2", "cat 7.39", "cat 0.665", "= (3.15, 1.16)"]
    ):
        figure_.locator(".abh-summary", has_text=words).wait_for(timeout=3000)
        filled = [
            figure_.locator(f"tbody .abh-c-{name}").first.inner_text().strip() != ""
            for name in columns
        ]
        assert filled == [number <= step for number in range(STEPS)]
        if step < STEPS - 1:
            figure_.get_by_role("button", name="Next").click()
    assert figure_.get_by_role("button", name="Next").is_disabled()
    figure_.get_by_role("button", name="Back").click()
    figure_.locator(".abh-summary", has_text="Divide each by their sum").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_every_word_shows_pythons_numbers(chapter, course):
    last_step(chapter)
    for i, token in enumerate(figure.WORDS):
        chapter.locator(FIGURE).get_by_role("radio", name=token, exact=True).check()
        check_shown(course, shown(chapter), Q[i])


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course):
    own = np.array(Q[1])
    long, zero, turned, reset = (
        figure.TEXT[key] for key in ("try_long", "try_zero", "try_turned", "reset")
    )
    for name, q, says, closed in [
        (turned, -own, "Most weight is on “chased”", []),
        # twice as long again would leave the plane
        (long, -2 * own, "Most weight is on “chased”", [long]),
        (turned, 2 * own, "Most weight is on “cat”", [long]),
        (zero, 0 * own, "All weights are equal", [long, zero, turned]),
        (reset, own, "Most weight is on “cat”", [reset]),
    ]:
        chapter.locator(FIGURE).get_by_role("button", name=name).click()
        check_shown(course, shown(chapter), q)
        chapter.locator(f"{FIGURE} .abh-summary", has_text=says).wait_for(timeout=3000)
        for other in (long, zero, turned, reset):
            assert chapter.locator(FIGURE).get_by_role("button", name=other).is_disabled() == (
                other in closed
            )


@pytest.mark.slow
@pytest.mark.browser
def test_small_numbers_keep_their_digits(chapter):
    last_step(chapter)
    chapter.locator(FIGURE).get_by_role("button", name=figure.TEXT["try_turned"]).click()
    now = shown(chapter)
    assert now["power_text"] == [f"{x:.3f}".replace("1.000", "1") for x in np.exp(now["scores"])]
    assert now["power_text"][0] == "0.135"
    plane = chapter.locator(f"{FIGURE} .abh-stage svg").first
    box = plane.bounding_box()
    # (4, -4): far from "chased"
    plane.click(position={"x": box["width"] * 0.94, "y": box["height"] * 0.94})
    now = shown(chapter)
    assert (
        min(now["weights"]) < 0.0005
        and now["weight_text"][int(np.argmin(now["weights"]))] == "<0.001"
    )


@pytest.mark.slow
@pytest.mark.browser
def test_arrow_keys_move_the_query(chapter, course):
    last_step(chapter)
    chapter.locator(f"{FIGURE} .abh-handle").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "Shift+ArrowDown"):
        chapter.keyboard.press(key)
    check_shown(course, shown(chapter), Q[1] + [-0.1, 0.2 - 0.5])
    assert chapter.url.endswith("01-qkv.html")  # left and right turn no page


@pytest.mark.slow
@pytest.mark.browser
def test_arrow_keys_choose_another_word(chapter, course):
    last_step(chapter)
    chapter.locator(f"{FIGURE} input[type=radio]").nth(1).focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(course, shown(chapter), Q[2])


@pytest.mark.slow
@pytest.mark.browser
def test_dragging_moves_the_query(chapter, course):
    last_step(chapter)
    plane = chapter.locator(f"{FIGURE} .abh-stage svg").first.bounding_box()
    handle = chapter.locator(f"{FIGURE} .abh-handle").bounding_box()
    chapter.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    chapter.mouse.down()
    chapter.mouse.move(
        plane["x"] + plane["width"] * 0.3, plane["y"] + plane["height"] * 0.2, steps=5
    )
    now = shown(chapter)
    # 30 % across and 20 % down a plane from -4.5 to 4.5
    np.testing.assert_allclose(now["query"], [-4.5 + 0.3 * 9, 4.5 - 0.2 * 9], atol=0.05)
    check_shown(course, now, now["query"])
    chapter.mouse.move(
        plane["x"] + plane["width"] * 1.5, plane["y"] + plane["height"] * 0.25, steps=5
    )
    chapter.mouse.up()
    outside = np.array([-4.5 + 1.5 * 9, 4.5 - 0.25 * 9])  # shortened along its own direction
    np.testing.assert_allclose(shown(chapter)["query"], outside * 4 / outside.max(), atol=0.05)


@pytest.mark.slow
@pytest.mark.browser
def test_on_a_phone_the_query_and_the_answer_are_on_one_screen(chapter):
    chapter.set_viewport_size({"width": 390, "height": 844})
    last_step(chapter)
    boxes = [
        chapter.locator(f"{FIGURE} {part}").bounding_box()
        for part in (".abh-ask svg", ".abh-mix svg", "table")
    ]
    top, bottom = min(box["y"] for box in boxes), max(box["y"] + box["height"] for box in boxes)
    assert bottom - top < 600 and chapter.locator(FIGURE).bounding_box()["height"] <= 1000
    query = np.array(shown(chapter)["query"])
    chapter.locator(f"{FIGURE} .abh-handle").focus()
    chapter.keyboard.press("ArrowUp")
    np.testing.assert_allclose(shown(chapter)["query"], np.add(query, [0, 0.1]))

"""The figure of chapter 04 computes what the chapter's own Python computes, under node and in the browser."""

import json

import figure_tools
import numpy as np
import pytest
from figures import position as figure

FIGURE = ".abh-position"
MATRICES = (figure.W_q, figure.W_k, figure.W_v)
HUNTED = [3, 4, 2, 0, 1]  # a mouse chased the cat


@pytest.fixture(scope="module")
def course():
    """The functions of the chapter, taken from the page itself."""
    return figure_tools.of_chapter("04-position")


def in_python(course, X, W_q, W_k, W_v, encoding, strength):
    """Words in the order they stand, by the chapter's functions for one position -> weights, outputs."""
    n, d_model = X.shape
    if encoding == "sinusoidal":
        X = X + [strength * course["encode_position"](p, d_model) for p in range(n)]
    Q, K = X @ W_q, X @ W_k
    if encoding == "rotary":
        Q = np.array([course["rotate"](q, strength * p) for p, q in enumerate(Q)])
        K = np.array([course["rotate"](k, strength * p) for p, k in enumerate(K)])
    return course["attention"](Q, K, X @ W_v)


def gaps(before, now, order):
    """How far outputs are from the old ones: word by word, place by place, and of their mean."""
    return {
        "words": abs(now - before[order]).max(),
        "places": abs(now - before).max(),
        "mean": abs(now.mean(0) - before.mean(0)).max(),
    }


def random_cases(number=200):
    rng = np.random.default_rng(20261121)
    cases = []
    for i in range(number):
        n, d_model, d_k, d_v = rng.integers(1, 9), 2 * rng.integers(1, 5), 2 * rng.integers(1, 5), rng.integers(1, 5)
        size = 10 ** rng.uniform(-3, 1.5)  # up to scores that overflow an unprotected exp
        cases.append(
            {
                "X": (size * rng.normal(size=(n, d_model))).tolist(),
                "W_q": rng.normal(size=(d_model, d_k)).tolist(),
                "W_k": rng.normal(size=(d_model, d_k)).tolist(),
                "W_v": rng.normal(size=(d_model, d_v)).tolist(),
                "encoding": figure.ENCODINGS[i % 3],
                "strength": float(rng.choice([0, 1, rng.uniform(0, 3)])),
                "order": rng.permutation(n).tolist(),
            }
        )
    return cases


def arrays(case):
    return [np.array(case[name]) for name in ("X", "W_q", "W_k", "W_v")]


def test_encodings_equal_the_chapter(course, tmp_path):
    rng = np.random.default_rng(1)
    cases = [
        {
            "p": float(rng.choice([0, 1, rng.integers(2, 60), rng.uniform(0, 5000), -3])),
            "x": rng.normal(size=2 * rng.integers(1, 33)).tolist(),
            "base": float(rng.choice([10, 10000, 500000])),
        }
        for _ in range(150)
    ]
    expression = "[m.encodePosition(c.p, c.x.length, c.base), m.rotate(c.x, c.p, c.base)]"
    for case, (encoded, rotated) in zip(
        cases, figure_tools.in_node(tmp_path, "position", expression, cases), strict=True
    ):
        x, p, base = np.array(case["x"]), case["p"], case["base"]
        np.testing.assert_allclose(encoded, course["encode_position"](p, len(x), base), atol=1e-9)
        np.testing.assert_allclose(rotated, course["rotate"](x, p, base), atol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(rotated), np.linalg.norm(x), rtol=1e-9)


def test_the_layer_equals_the_chapter(course, tmp_path):
    cases = random_cases()
    expression = "m.layer(m.reorder(c.X, c.order), c.W_q, c.W_k, c.W_v, c.encoding, c.strength)"
    answers = figure_tools.in_node(tmp_path, "position", expression, cases)
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        X, *matrices = arrays(case)
        weights, outputs = in_python(course, X[case["order"]], *matrices, case["encoding"], case["strength"])
        np.testing.assert_allclose(answer["weights"], weights, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(answer["outputs"], outputs, rtol=1e-6, atol=1e-6)


def test_changes_equal_numpy_and_vanish_without_positions(course, tmp_path):
    cases = random_cases()
    expression = (
        "m.changes(m.layer(c.X, c.W_q, c.W_k, c.W_v, c.encoding, c.strength).outputs,"
        " m.layer(m.reorder(c.X, c.order), c.W_q, c.W_k, c.W_v, c.encoding, c.strength).outputs, c.order)"
    )
    for case, answer in zip(cases, figure_tools.in_node(tmp_path, "position", expression, cases), strict=True):
        X, *matrices = arrays(case)
        before, now = (
            in_python(course, x, *matrices, case["encoding"], case["strength"])[1] for x in (X, X[case["order"]])
        )
        for name, expected in gaps(before, now, case["order"]).items():
            np.testing.assert_allclose(answer[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)
        assert answer["words"] == max(answer["each"])
        if case["encoding"] == "none" or case["strength"] == 0:
            assert max(answer["words"], answer["mean"]) < 1e-10 * max(1, abs(before).max())


def test_move_word_is_take_out_and_put_back(tmp_path):
    cases = [{"n": n, "a": a, "b": b} for n in range(1, 7) for a in range(n) for b in range(n)]
    expression = "m.moveWord(Array.from({ length: c.n }, (_, i) => i), c.a, c.b)"
    for case, answer in zip(cases, figure_tools.in_node(tmp_path, "position", expression, cases), strict=True):
        expected = list(range(case["n"]))
        expected.insert(case["b"], expected.pop(case["a"]))
        assert answer == expected


def test_the_figure_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="5 tokens"):
        figure.PositionFigure(figure.TOKENS, figure.X[:4], *MATRICES)
    with pytest.raises(ValueError, match="even"):
        figure.PositionFigure(figure.TOKENS, figure.X, figure.W_q[:, :1], figure.W_k[:, :1], figure.W_v)
    with pytest.raises(ValueError, match="permutation"):
        figure.PositionFigure(figure.TOKENS, figure.X, *MATRICES, order=[0, 1, 2, 3, 3])


def test_outputs_stay_on_the_plane(course):
    """Whatever the order and the strength, no output leaves the part of the plane that is drawn."""
    rng = np.random.default_rng(3)
    for encoding in figure.ENCODINGS:
        for _ in range(150):
            order = rng.permutation(5)
            outputs = in_python(course, figure.X[order], *MATRICES, encoding, rng.uniform(0, 1))[1]
            assert abs(outputs).max() < figure.REACH


# ---- in the browser --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows, by places: words, weights, changes, outputs, as exact numbers and as text."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-position");
      const rows = [...root.querySelectorAll(".abh-rows tbody tr")];
      const number = (text) => Number(text.replace("\\u2212", "-"));
      return {
        order: JSON.parse(root.dataset.order), outputs: JSON.parse(root.dataset.outputs),
        words: rows.map((r) => r.querySelector(".abh-grip").textContent),
        places: rows.map((r) => Number(r.querySelector(".abh-place").textContent)),
        columns: [...root.querySelectorAll(".abh-name")].map((c) => c.textContent),
        weights: rows.map((r) => [...r.querySelectorAll(".abh-cell")].map((c) => Number(c.dataset.weight))),
        weight_text: rows.map((r) => [...r.querySelectorAll(".abh-cell")].map((c) => Number(c.textContent))),
        bars: rows.map((r) => [...r.querySelectorAll(".abh-cell i")].map((c) =>
          c.getBoundingClientRect().height / (c.parentNode.getBoundingClientRect().height - 24))),
        each: rows.map((r) => Number(r.dataset.change)),
        each_text: rows.map((r) => number(r.querySelector(".abh-change").textContent)),
        gaps: [...root.querySelectorAll(".abh-gap")].map((c) => Number(c.dataset.gap)),
        tags: [...root.querySelectorAll(".abh-tag")].map((c) => c.textContent),
        selected: root.querySelector(".abh-selected .abh-grip").textContent,
        disabled: root.querySelector("input[type=range]").disabled,
      };
    }""")


def check_shown(course, now, order, encoding="none", strength=1.0):
    """Everything on show follows from the order, the encoding and its strength."""
    order = list(order)
    before = in_python(course, figure.X, *MATRICES, encoding, strength)[1]
    weights, outputs = in_python(course, figure.X[order], *MATRICES, encoding, strength)
    words = [figure.TOKENS[i] for i in order]
    assert (now["order"], now["words"], now["columns"]) == (order, words, words)
    assert now["places"] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(now["outputs"], outputs, atol=1e-9)
    np.testing.assert_allclose(now["weights"], weights, atol=1e-9)
    np.testing.assert_allclose(now["weight_text"], weights, atol=0.00501)
    np.testing.assert_allclose(now["bars"], weights, atol=0.06)
    each = abs(outputs - before[order]).max(axis=1)
    np.testing.assert_allclose(now["each"], each, atol=1e-9)
    np.testing.assert_allclose(now["each_text"], each, atol=0.00501)
    np.testing.assert_allclose(now["gaps"], list(gaps(before, outputs, order).values()), atol=1e-9)
    assert now["disabled"] == (encoding == "none")


@pytest.fixture
def chapter(page, site):
    page.goto(site + "/book/04-position.html")
    page.locator(f"{FIGURE} .abh-grip").first.scroll_into_view_if_needed(timeout=20_000)
    return page


def choose(page, encoding):
    page.locator(f"{FIGURE} input[type=radio]").nth(figure.ENCODINGS.index(encoding)).check(force=True)


def grip(page, word):
    return page.locator(f"{FIGURE} .abh-grip", has_text=word).and_(page.get_by_text(word, exact=True))


@pytest.mark.slow
@pytest.mark.browser
def test_at_first_the_hunted_hunts_and_nothing_changes(chapter, course):
    now = shown(chapter)
    check_shown(course, now, HUNTED)
    assert now["gaps"][0] < 1e-12 and now["gaps"][2] < 1e-12 < 0.1 < now["gaps"][1]
    assert now["tags"] == [figure.TEXT[name] for name in ("equivariant", "not_invariant", "invariant")]
    chapter.locator(f"{FIGURE} .abh-summary", has_text="move along").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_encodings_and_their_strength(chapter, course):
    dial = chapter.locator(f"{FIGURE} input[type=range]")
    for encoding in ("sinusoidal", "rotary"):
        choose(chapter, encoding)
        check_shown(course, shown(chapter), HUNTED, encoding)
        assert shown(chapter)["tags"][0] == figure.TEXT["not_equivariant"]
        dial.focus()
        chapter.keyboard.press("ArrowLeft")
        check_shown(course, shown(chapter), HUNTED, encoding, 0.95)
        chapter.keyboard.press("Home")
        check_shown(course, shown(chapter), HUNTED, encoding, 0)
        assert shown(chapter)["tags"][0] == figure.TEXT["equivariant"]
        chapter.keyboard.press("End")
    choose(chapter, "none")
    check_shown(course, shown(chapter), HUNTED)


@pytest.mark.slow
@pytest.mark.browser
def test_keys_and_buttons_move_a_word(chapter, course):
    choose(chapter, "rotary")
    grip(chapter, "chased").focus()
    chapter.keyboard.press("ArrowDown")
    check_shown(course, shown(chapter), [3, 4, 0, 2, 1], "rotary")
    for _ in range(5):  # beyond the first place nothing happens
        chapter.keyboard.press("ArrowUp")
    check_shown(course, shown(chapter), [2, 3, 4, 0, 1], "rotary")
    assert chapter.evaluate("document.activeElement.textContent") == "chased"  # focus has come along
    grip(chapter, "cat").click()
    assert shown(chapter)["selected"] == "cat"
    up, down = (chapter.locator(f"{FIGURE} [data-by='{by}']") for by in (-1, 1))
    up.click()
    up.click()
    down.click()
    check_shown(course, shown(chapter), [2, 3, 4, 1, 0], "rotary")
    chapter.locator(f"{FIGURE} .abh-back").click()
    now = shown(chapter)
    check_shown(course, now, range(5), "rotary")
    assert max(now["gaps"]) == 0 and now["tags"] == ["", "", ""]
    assert chapter.locator(f"{FIGURE} .abh-back").is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_dragging_moves_a_word(chapter, course):
    choose(chapter, "sinusoidal")
    chapter.wait_for_timeout(50)
    box = grip(chapter, "the").bounding_box()
    target = chapter.locator(f"{FIGURE} .abh-grip").first.bounding_box()
    chapter.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    chapter.mouse.down()
    chapter.mouse.move(target["x"] + 25, target["y"] + target["height"] / 2, steps=12)
    check_shown(course, shown(chapter), [0, 3, 4, 2, 1], "sinusoidal")
    chapter.mouse.up()
    chapter.mouse.move(target["x"] + 25, target["y"] + 400)  # let go: nothing follows any more
    now = shown(chapter)
    check_shown(course, now, [0, 3, 4, 2, 1], "sinusoidal")
    assert now["selected"] == "the"


@pytest.mark.slow
@pytest.mark.browser
def test_a_finger_moves_a_word(browser, site, course):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    page.goto(site + "/book/04-position.html")
    page.locator(f"{FIGURE} .abh-rows").scroll_into_view_if_needed(timeout=20_000)
    client = context.new_cdp_session(page)
    boxes = [page.locator(f"{FIGURE} .abh-grip").nth(i).bounding_box() for i in range(5)]
    x, ys = boxes[0]["x"] + 30, [box["y"] + box["height"] / 2 for box in boxes]
    way = [("touchMove", y) for y in np.linspace(ys[0], ys[2], 8)]
    for kind, y in [("touchStart", ys[0]), *way, ("touchEnd", None)]:
        points = [] if y is None else [{"x": x, "y": float(y)}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_timeout(50)
    check_shown(course, shown(page), [4, 2, 3, 0, 1])
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_pictures_and_words_tell_the_numbers(chapter, course):
    choose(chapter, "sinusoidal")
    label = chapter.locator(f"{FIGURE} svg[role=img]").get_attribute("aria-label")
    outputs = json.loads(chapter.locator(FIGURE).get_attribute("data-outputs"))
    x, y = outputs[HUNTED.index(1)]  # cat, now
    assert f"to ({x:.2f}, {y:.2f})".replace("-", "\u2212") in label
    assert "cat, at place 5 of 5" in grip(chapter, "cat").get_attribute("aria-label")
    chapter.locator(f"{FIGURE} .abh-summary", has_text="order matters").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(browser, site):
    assert figure_tools.fits_a_phone(browser, site + "/book/04-position.html", FIGURE)

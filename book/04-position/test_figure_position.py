"""The figure of chapter 04 computes what the chapter's own Python computes, under node and in
the browser.
"""

import itertools
import json

import numpy as np
import pytest
from figures import position as figure
from figures import testing

FIGURE = ".abh-position"
PAGE = "04-position"
MATRICES = (figure.W_q, figure.W_k, figure.W_v)
TEXT, WORDS = figure.TEXT, figure.WORDS
SWAPPED = [2, 1, 0]  # mouse chased cat


def in_python(course, X, W_q, W_k, W_v, encoding, start):
    """Words in the order they stand, by the chapter's functions for one position -> weights,
    outputs.
    """
    n, d_model = X.shape
    if encoding == "sinusoidal":
        X = X + [course["encode_position"](start + i, d_model) for i in range(n)]
    Q, K = X @ W_q, X @ W_k
    if encoding == "rotary":
        Q = np.array([course["rotate"](q, start + i) for i, q in enumerate(Q)])
        K = np.array([course["rotate"](k, start + i) for i, k in enumerate(K)])
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
        n, d_model, d_k, d_v = (
            rng.integers(1, 9),
            2 * rng.integers(1, 5),
            2 * rng.integers(1, 5),
            rng.integers(1, 5),
        )
        size = 10 ** rng.uniform(-3, 1.5)  # up to scores that overflow an unprotected exp
        cases.append(
            {
                "X": (size * rng.normal(size=(n, d_model))).tolist(),
                "W_q": rng.normal(size=(d_model, d_k)).tolist(),
                "W_k": rng.normal(size=(d_model, d_k)).tolist(),
                "W_v": rng.normal(size=(d_model, d_v)).tolist(),
                "encoding": figure.ENCODINGS[i % 3],
                "start": int(rng.choice([0, 1, 10, rng.integers(0, 2000)])),
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
        cases, testing.in_node(tmp_path, "position", expression, cases), strict=True
    ):
        x, p, base = np.array(case["x"]), case["p"], case["base"]
        np.testing.assert_allclose(encoded, course["encode_position"](p, len(x), base), atol=1e-9)
        np.testing.assert_allclose(rotated, course["rotate"](x, p, base), atol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(rotated), np.linalg.norm(x), rtol=1e-9)


def test_the_layer_equals_the_chapter(course, tmp_path):
    cases = random_cases()
    expression = "m.layer(m.reorder(c.X, c.order), c.W_q, c.W_k, c.W_v, c.encoding, c.start)"
    answers = testing.in_node(tmp_path, "position", expression, cases)
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        X, *matrices = arrays(case)
        weights, outputs = in_python(
            course, X[case["order"]], *matrices, case["encoding"], case["start"]
        )
        np.testing.assert_allclose(answer["weights"], weights, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(answer["outputs"], outputs, rtol=1e-6, atol=1e-6)


def test_changes_equal_numpy_and_vanish_where_the_chapter_says(course, tmp_path):
    cases = random_cases()
    expression = (
        "m.changes(m.layer(c.X, c.W_q, c.W_k, c.W_v, c.encoding, 0).outputs, "
        "m.layer(m.reorder(c.X, c.order), c.W_q, c.W_k, c.W_v, c.encoding, c.start).outputs, "
        "c.order)"
    )
    for case, answer in zip(
        cases, testing.in_node(tmp_path, "position", expression, cases), strict=True
    ):
        X, *matrices = arrays(case)
        before = in_python(course, X, *matrices, case["encoding"], 0)[1]
        now = in_python(course, X[case["order"]], *matrices, case["encoding"], case["start"])[1]
        for name, expected in gaps(before, now, case["order"]).items():
            np.testing.assert_allclose(answer[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)
        assert answer["words"] == max(answer["each"])
        if case["encoding"] == "none":
            assert max(answer["words"], answer["mean"]) < 1e-10 * max(1, abs(before).max())


def test_move_word_is_take_out_and_put_back(tmp_path):
    cases = [{"n": n, "a": a, "b": b} for n in range(1, 7) for a in range(n) for b in range(n)]
    expression = "m.moveWord(Array.from({ length: c.n }, (_, i) => i), c.a, c.b)"
    for case, answer in zip(
        cases, testing.in_node(tmp_path, "position", expression, cases), strict=True
    ):
        expected = list(range(case["n"]))
        expected.insert(case["b"], expected.pop(case["a"]))
        assert answer == expected


def test_the_figure_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="3 tokens"):
        figure.PositionFigure(WORDS, figure.X[:2], *MATRICES)
    with pytest.raises(ValueError, match="even"):
        figure.PositionFigure(WORDS, figure.X, figure.W_q[:, :1], figure.W_k[:, :1], figure.W_v)
    with pytest.raises(ValueError, match="permutation"):
        figure.PositionFigure(WORDS, figure.X, *MATRICES, order=[0, 1, 1])
    with pytest.raises(ValueError, match="permutation"):
        figure.PositionFigure(
            WORDS, figure.X, *MATRICES, tries=[{"order": [1, 0], "encoding": 0, "start": 0}]
        )


def test_the_words_are_those_of_chapter_1():
    from figures import qkv

    assert np.array_equal(figure.X[:, :3], qkv.X) and not figure.X[:, 3].any()
    for mine, theirs in zip(MATRICES, (qkv.W_q, qkv.W_k, qkv.W_v), strict=True):
        assert np.array_equal(mine[:3], theirs) and not mine[3].any()


def test_outputs_stay_on_their_lines_and_only_what_the_text_says_stays(course):
    """In every order and from every place that can be set; and which changes vanish."""
    for encoding in figure.ENCODINGS:
        before = in_python(course, figure.X, *MATRICES, encoding, 0)[1]
        for order in itertools.permutations(range(3)):
            for start in range(figure.FARTHEST + 1):
                outputs = in_python(course, figure.X[list(order)], *MATRICES, encoding, start)[1]
                assert figure.REACH[0] < outputs.min() and outputs.max() < figure.REACH[1]
                kept = abs(outputs - before[list(order)]).max() < 1e-9
                ordered = list(order) == [0, 1, 2]
                assert kept == (
                    encoding == "none" or (ordered and (encoding == "rotary" or start == 0))
                ), (
                    encoding,
                    order,
                    start,
                )


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows, by places: words, weights, changes, outputs, as exact numbers and
    as text.
    """
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-position");
      const rows = [...root.querySelectorAll(".abh-rows tbody tr")];
      const number = (text) => Number(text.replace("\\u2212", "-"));
      const place = (cell, name) => [...cell.querySelectorAll(`.abh-${name}`)].map((i) => parseFloat(i.style.left));
      const written = (cell) => [...cell.querySelectorAll(".abh-line > span")].map((s) => number(s.textContent));
      return {
        order: JSON.parse(root.dataset.order), outputs: JSON.parse(root.dataset.outputs),
        words: rows.map((r) => r.querySelector(".abh-token").textContent),
        places: rows.map((r) => Number(r.querySelector(".abh-place").textContent)),
        columns: [...root.querySelectorAll(".abh-name")].map((c) => c.textContent),
        weights: rows.map((r) => [...r.querySelectorAll(".abh-cell")].map((c) => Number(c.dataset.weight))),
        weight_text: rows.map((r) => [...r.querySelectorAll(".abh-cell")].map((c) => Number(c.textContent))),
        bars: rows.map((r) => [...r.querySelectorAll(".abh-cell i")].map((c) =>
          c.getBoundingClientRect().height / (c.parentNode.getBoundingClientRect().height - 26))),
        output_text: rows.map((r) => written(r)), mean_text: written(root.querySelector("tfoot")),
        dots: rows.map((r) => place(r, "dot")), rings: rows.map((r) => place(r, "ring")),
        mean_dots: place(root.querySelector("tfoot"), "dot"),
        each: rows.map((r) => Number(r.dataset.change)),
        each_text: rows.map((r) => number(r.querySelector(".abh-change").textContent)),
        gaps: [...root.querySelectorAll(".abh-gap")].map((c) => Number(c.dataset.gap)),
        tags: [...root.querySelectorAll(".abh-tag")].map((c) => c.textContent),
        selected: root.querySelector(".abh-selected .abh-token").textContent,
        pressed: [...root.querySelectorAll("[aria-pressed]")].map((b) => b.getAttribute("aria-pressed") === "true"),
      };
    }""")


def check_shown(course, now, order, encoding="none", start=0):
    """Everything on show follows from the order, the encoding and the first place."""
    order = list(order)
    before = in_python(course, figure.X, *MATRICES, encoding, 0)[1]
    weights, outputs = in_python(course, figure.X[order], *MATRICES, encoding, start)
    words = [WORDS[i] for i in order]
    assert (now["order"], now["words"], now["columns"]) == (order, words, words)
    assert now["places"] == [start, start + 1, start + 2]
    np.testing.assert_allclose(now["outputs"], outputs, atol=1e-9)
    np.testing.assert_allclose(now["weights"], weights, atol=1e-9)
    np.testing.assert_allclose(now["weight_text"], weights, atol=0.00501)
    np.testing.assert_allclose(now["bars"], weights, atol=0.06)
    low, high = figure.REACH
    np.testing.assert_allclose(now["dots"], 100 * (outputs - low) / (high - low), atol=0.01)
    np.testing.assert_allclose(now["rings"], 100 * (before[order] - low) / (high - low), atol=0.01)
    np.testing.assert_allclose(
        now["mean_dots"], 100 * (outputs.mean(0) - low) / (high - low), atol=0.01
    )
    np.testing.assert_allclose(now["output_text"], outputs, atol=0.00501)
    np.testing.assert_allclose(now["mean_text"], outputs.mean(0), atol=0.00501)
    each = abs(outputs - before[order]).max(axis=1)
    np.testing.assert_allclose(now["each"], each, atol=1e-9)
    np.testing.assert_allclose(now["each_text"], each, atol=0.00501)
    np.testing.assert_allclose(now["gaps"], list(gaps(before, outputs, order).values()), atol=1e-9)
    state = {"order": order, "encoding": figure.ENCODINGS.index(encoding), "start": start}
    assert now["pressed"] == [one == state for one in figure.TRIES]


def choose(page, encoding):
    page.locator(f"{FIGURE} input[type=radio]").nth(figure.ENCODINGS.index(encoding)).check(
        force=True
    )


def grip(page, word):
    return page.locator(f"{FIGURE} .abh-grip", has_text=word)


@pytest.mark.slow
@pytest.mark.browser
def test_at_first_it_is_the_sentence_of_chapter_1(chapter, course):
    now = shown(chapter)
    check_shown(course, now, range(3))
    # as in chapter 2
    assert now["weight_text"][1] == [0.58, 0.14, 0.28] and now["output_text"][1] == [2.87, 1.42]
    assert max(now["gaps"]) == 0 and now["tags"] == ["", "", ""]
    testing.says(chapter, "Press a button")
    assert chapter.locator(FIGURE).get_by_role("button", name=TEXT["reset"]).is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course):
    yes, no = (
        ("equivariant", "not_invariant", "invariant"),
        ("not_equivariant", "not_invariant", "not_invariant"),
    )
    sentences = [
        "move along with their words",
        "Order matters now",
        "Order matters now",
        "The order is the same",
        "No output",
    ]
    tags = [yes, no, no, ("not_same",) * 3, ("same",) * 3]
    for one, name, sentence, tag in zip(figure.TRIES, TEXT["tries"], sentences, tags, strict=True):
        chapter.locator(FIGURE).get_by_role("button", name=name).click()
        now = shown(chapter)
        check_shown(course, now, one["order"], figure.ENCODINGS[one["encoding"]], one["start"])
        assert now["tags"] == [TEXT[t] for t in tag]
        testing.says(chapter, sentence)
    chapter.locator(FIGURE).get_by_role("button", name=TEXT["reset"]).click()
    check_shown(course, shown(chapter), range(3))


@pytest.mark.slow
@pytest.mark.browser
def test_the_first_place_can_be_moved(chapter, course):
    dial = chapter.locator(f"{FIGURE} input[type=range]")
    for encoding in ("sinusoidal", "rotary", "none"):
        choose(chapter, encoding)
        dial.focus()
        chapter.keyboard.press("End")
        check_shown(course, shown(chapter), range(3), encoding, figure.FARTHEST)
        chapter.keyboard.press("ArrowLeft")
        check_shown(course, shown(chapter), range(3), encoding, figure.FARTHEST - 1)
        chapter.keyboard.press("Home")
        check_shown(course, shown(chapter), range(3), encoding)
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page


@pytest.mark.slow
@pytest.mark.browser
def test_keys_and_buttons_move_a_word(chapter, course):
    choose(chapter, "rotary")
    grip(chapter, "mouse").focus()
    chapter.keyboard.press("ArrowUp")
    check_shown(course, shown(chapter), [0, 2, 1], "rotary")
    for _ in range(3):  # beyond the first place nothing happens
        chapter.keyboard.press("ArrowUp")
    check_shown(course, shown(chapter), [2, 0, 1], "rotary")
    # focus has come along
    assert chapter.evaluate("document.activeElement.lastChild.textContent") == "mouse"
    grip(chapter, "chased").click()
    assert shown(chapter)["selected"] == "chased"
    up, down = (chapter.locator(f"{FIGURE} [data-by='{by}']") for by in (-1, 1))
    up.click()
    up.click()
    down.click()
    check_shown(course, shown(chapter), [2, 1, 0], "rotary")
    testing.says(chapter, "most, by")


@pytest.mark.slow
@pytest.mark.browser
def test_dragging_moves_a_word(chapter, course):
    choose(chapter, "sinusoidal")
    box = grip(chapter, "mouse").bounding_box()
    target = grip(chapter, "cat").bounding_box()
    chapter.mouse.move(box["x"] + 40, box["y"] + box["height"] / 2)
    chapter.mouse.down()
    chapter.mouse.move(target["x"] + 45, target["y"] + target["height"] / 2, steps=12)
    check_shown(course, shown(chapter), [2, 0, 1], "sinusoidal")
    chapter.mouse.up()
    chapter.mouse.move(target["x"] + 45, target["y"] + 400)  # let go: nothing follows any more
    now = shown(chapter)
    check_shown(course, now, [2, 0, 1], "sinusoidal")
    assert now["selected"] == "mouse"


@pytest.mark.slow
@pytest.mark.browser
def test_a_finger_moves_a_word(browser, site, course):
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    page.goto(f"{site}/book/{PAGE}.html")
    page.locator(f"{FIGURE} .abh-rows").scroll_into_view_if_needed(timeout=20_000)
    client = context.new_cdp_session(page)
    boxes = [page.locator(f"{FIGURE} .abh-grip").nth(i).bounding_box() for i in range(3)]
    x, ys = boxes[0]["x"] + 30, [box["y"] + box["height"] / 2 for box in boxes]
    way = [("touchMove", y) for y in np.linspace(ys[0], ys[2], 8)]
    for kind, y in [("touchStart", ys[0]), *way, ("touchEnd", None)]:
        points = [] if y is None else [{"x": x, "y": float(y)}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_timeout(300)
    check_shown(course, shown(page), [1, 2, 0])
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_moved_word_keeps_its_name(chapter):
    """After each thing to try, every output stands in the row of its word, and handles say where
    they are.
    """
    for name in TEXT["tries"]:
        chapter.locator(FIGURE).get_by_role("button", name=name).click()
        now = shown(chapter)
        for word, place in zip(now["words"], now["places"], strict=True):
            assert f"{place} {word}:" in grip(chapter, word).get_attribute("aria-label")
            assert grip(chapter, word).locator(".abh-token").is_visible()
    outputs = json.loads(chapter.locator(FIGURE).get_attribute("data-outputs"))
    assert len(outputs) == len(now["words"])

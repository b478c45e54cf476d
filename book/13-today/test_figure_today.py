"""The figure of chapter 13 computes what the chapter's own Python computes, under node and in the
browser.
"""

import re

import numpy as np
import pytest
from figures import testing
from figures import today as figure

PAGE = "13-today"
FIGURE = ".abh-today"
TEXT = figure.TEXT


def states():
    """The steps, each other choice of a part in the first and last of them, and other tokens."""
    found = list(figure.STEPS)
    for state in (figure.STEPS[0], figure.STEPS[-1]):
        for part, options in figure.CHOICES.items():
            found += [{**state, part: option} for option in options if option != state[part]]
        found += [{**state, "token": token} for token in (0, 1, 7)]
    return found


def check_equal(answer, state):
    expected = figure.computed(state)
    assert {name for name in answer if name != "state"} == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, rtol=1e-8, atol=1e-9, err_msg=name)


def test_the_random_numbers_are_the_same(tmp_path):
    (answer,) = testing.in_node(tmp_path, "today", "m.weights(c)", [figure.SIZES])
    expected = figure.weights()
    assert set(answer) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
    assert abs(expected["W_1"].mean()) < 0.01
    assert expected["W_1"].var() == pytest.approx(1 / figure.SIZES["d"], rel=0.05)


def test_every_state_is_the_chapters(tmp_path):
    cases = states()
    answers = testing.in_node(
        tmp_path, "today", "m.computed(c.state, m.weights(c.sizes), c.sizes)",
        [{"state": state, "sizes": figure.SIZES} for state in cases],
    )  # fmt: skip
    for state, answer in zip(cases, answers, strict=True):
        check_equal(answer, state)


def test_parts_are_the_chapters(course, tmp_path):
    rng = np.random.default_rng(0)
    d, wide = 6, 5
    cases = [
        {
            "x": rng.normal(size=d).tolist(),
            "place": place,
            "gate": rng.normal(size=(d, wide)).tolist(),
            "up": rng.normal(size=(d, wide)).tolist(),
            "down": rng.normal(size=(wide, d)).tolist(),
        }
        for place in (0, 1, 50)
    ]
    parts = "[m.normed(c.x), m.turned(c.x, c.place), m.gated(c.x, c.gate, c.up, c.down)]"
    for case, answer in zip(cases, testing.in_node(tmp_path, "today", parts, cases), strict=True):
        x, gate, up, down = (np.array(case[name]) for name in ("x", "gate", "up", "down"))
        expected = course["normed"](x), course["turned"](x, case["place"])
        np.testing.assert_allclose(answer[:2], expected, rtol=1e-12)
        np.testing.assert_allclose(answer[2], course["network"](x, gate, up, down), rtol=1e-12)


def test_a_sink_is_one_key_more(course, tmp_path):
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(7, 6))
    W = rng.normal(size=(3, 6, 4))
    for window, sink in ((3, 0.5), (7, -1.0), (1, 3.0)):
        weights, out = course["attend"](6, Y, *W, window, sink)
        assert len(weights) == window and weights.sum() < 1 and out.shape == (4,)
        scores = np.log(weights / weights[-1]).tolist()  # up to a number that all share
        beyond = np.log((1 - weights.sum()) / weights[-1])
        (answer,) = testing.in_node(tmp_path, "today", "m.sunk(c[0], c[1])", [[scores, beyond]])
        np.testing.assert_allclose(answer, weights, rtol=1e-9)
    (large,) = testing.in_node(tmp_path, "today", "m.sunk([900, 900], 900)", [0])
    np.testing.assert_allclose(large, 1 / 3)


def test_the_chapters_functions_are_those_of_earlier_ones(course):
    x = np.random.default_rng(2).normal(size=6)
    rotate = testing.of_chapter("04-position")["rotate"]
    np.testing.assert_allclose(course["turned"](x, 11), rotate(x, 11), rtol=1e-12)


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-today");
      const texts = (name) => [...root.querySelectorAll(name)].map((node) => node.textContent);
      const classes = (name) => [...root.querySelectorAll(`.abh-cell${name}`)].length;
      return {
        now: JSON.parse(root.dataset.now), effects: texts(".abh-effect"), sizes: texts(".abh-size"),
        seen: classes(".abh-seen"), reached: classes(".abh-reached"),
        chosen: [...root.querySelectorAll(".abh-parts input:checked")].map((input) => Number(input.value)),
        pressed: [...root.querySelectorAll(".abh-tries button")].map((b) => b.getAttribute("aria-pressed") === "true"),
      };
    }""")


def check_shown(one):
    """Everything on show follows from the state."""
    now, state = one["now"], one["now"]["state"]
    check_equal(now, state)
    assert one["chosen"] == [options.index(state[part]) for part, options in figure.CHOICES.items()]
    assert one["seen"] == now["rows"]
    for text, row in zip(one["sizes"], now["stream"], strict=True):
        assert text == TEXT["size"].format(size=f"{np.sqrt(np.mean(np.square(row))):.2f}")
    effects = dict(zip(figure.CHOICES, one["effects"], strict=True))
    assert f"{now['hidden']} hidden numbers, {now['params']:,} weights" == effects["network"]
    assert f"{now['rows']} rows, {now['bytes']:,} bytes" in effects["layers"]
    assert f"{now['most']:.2f}" in effects["qk"] and f"{min(now['sums']):.2f}" in effects["sink"]


def press(page, step):
    name = f"{step + 1} {TEXT['steps'][step]}"
    page.locator(FIGURE).get_by_role("button", name=name, exact=True).click()


@pytest.mark.slow
@pytest.mark.browser
def test_the_steps_exchange_one_part_each(chapter):
    one = shown(chapter)
    check_shown(one)
    assert one["now"]["state"] == figure.STEPS[0]
    for step, state in enumerate(figure.STEPS):
        press(chapter, step)
        one = shown(chapter)
        check_shown(one)
        assert one["now"]["state"] == state
        assert one["pressed"] == [k == step for k in range(len(figure.STEPS))]
    testing.says(chapter, f"sum to {min(one['now']['sums']):.2f} to")


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_says_what_its_steps_show(chapter):
    items = chapter.locator("ol > li").filter(has=chapter.locator("em")).all_inner_texts()
    before = ""
    for step, (item, name) in enumerate(
        zip(items[: len(figure.STEPS)], TEXT["steps"], strict=True)
    ):
        assert item.startswith(name)
        press(chapter, step)
        effects = " ".join(shown(chapter)["effects"])
        for number in re.findall(r"\d+\.\d\d|\d+,\d+", item):
            assert number in before + effects
        before = effects


@pytest.mark.slow
@pytest.mark.browser
def test_parts_are_switched_one_by_one(chapter):
    root = chapter.locator(FIGURE)
    press(chapter, 7)
    for part, option in (("layers", 2), ("kv", 3), ("positions", 0), ("norm", 0), ("qk", 0)):
        group = root.get_by_role("group", name=TEXT["parts"][part], exact=True)
        group.get_by_role("radio", name=TEXT["options"][part][option], exact=True).check()
        one = shown(chapter)
        check_shown(one)
        assert one["now"]["state"][part] == figure.CHOICES[part][option]
        assert not any(one["pressed"])


@pytest.mark.slow
@pytest.mark.browser
def test_another_token_is_chosen(chapter):
    press(chapter, 6)
    for token in (1, 2, 9):
        chapter.locator(f"{FIGURE} input[type=range]").fill(str(token))
        one = shown(chapter)
        check_shown(one)
        assert one["now"]["state"]["token"] == token - 1
        assert one["now"]["reach"] == token


@pytest.mark.slow
@pytest.mark.browser
def test_parts_and_token_are_chosen_with_keys(chapter):
    root = chapter.locator(FIGURE)
    root.locator("input[type=range]").focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        chapter.keyboard.press(key)
    group = root.get_by_role("group", name=TEXT["parts"]["kv"], exact=True)
    group.get_by_role("radio", name="8", exact=True).focus()
    for _ in range(2):
        chapter.keyboard.press("ArrowRight")
    one = shown(chapter)
    check_shown(one)
    assert one["now"]["state"] == {**figure.STEPS[0], "token": figure.SIZES["n"] - 2, "kv": "2"}
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page

"""The figure of chapter 14 computes what its Python computes and what the chapter says, under node
and in the browser.
"""

import random
import re

import numpy as np
import pytest
from figures import serving as figure
from figures import testing

PAGE = "14-serving"
FIGURE = ".abh-serving"
TEXT = figure.TEXT
FIRST = {**figure.EXAMPLES[0], **figure.STEPS[0]}


def states():
    """Each step of each example, in all moments; and requests at random."""
    cases = [{**one, **step} for one in figure.EXAMPLES for step in figure.STEPS]
    cases += [{**FIRST, **step, "now": now} for step in figure.STEPS for now in range(15)]
    draw = random.Random(0)
    for k in range(40):
        cases.append({
            "arrivals": [draw.randint(0, figure.SIZES["last"]) for _ in range(6)],
            "steps": [draw.randint(1, figure.SIZES["most"]) for _ in range(6)],
            **figure.STEPS[k % len(figure.STEPS)],
            "now": draw.randint(0, 20),
        })  # fmt: skip
    return cases


def check_equal(answer, state):
    expected = figure.computed(state)
    assert {name for name in answer if name != "state"} == set(expected)
    for name, value in expected.items():
        assert answer[name] == (pytest.approx(value) if isinstance(value, float) else value), name


def test_every_state_is_the_same_in_python(tmp_path):
    cases = states()
    answers = testing.in_node(
        tmp_path, "serving", "m.computed(c.state, c.sizes)",
        [{"state": state, "sizes": figure.SIZES} for state in cases],
    )  # fmt: skip
    for state, answer in zip(cases, answers, strict=True):
        check_equal(answer, state)


@pytest.mark.parametrize("state", states()[::5], ids=str)
def test_the_schedules_keep_their_rules(state):
    """Step by step, as a server would: what is found by the free slots is found by waiting."""
    now = figure.computed(state)
    waits = sorted(range(6), key=lambda r: (state["arrivals"][r], r))
    running = {}
    for t in range(now["total"]):
        running = {r: left - 1 for r, left in running.items() if left > 1}
        if state["schedule"] == "continuous" or not running:
            ready = [r for r in waits if state["arrivals"][r] <= t]
            for r in ready[: figure.SIZES["slots"] - len(running)]:
                assert now["starts"][r] == t
                running[r] = state["steps"][r]
                waits.remove(r)
        assert set(running) == {r for r in range(6) if now["starts"][r] <= t <= now["ends"][r]}
        slots = [now["slot"][r] for r in running]
        assert len(set(slots)) == len(slots)
    assert not waits and max(running.values()) == 1


@pytest.mark.parametrize("state", states()[::3], ids=str)
def test_pages_have_their_owners(state):
    now, page = figure.computed(state), figure.SIZES["page"]
    for r, (length, table) in enumerate(zip(now["lengths"], now["tables"], strict=True)):
        assert len(table) == -(-length // page)
        assert [r in now["owners"][p] for p in table] == [True] * len(table)
    both = max(len(who) for who in now["owners"])
    assert both <= (figure.SIZES["slots"] if state["prefix"] == "shared" else 1)
    common = figure.SIZES["prefix"] // page
    starts = {tuple(table[:common]) for table in now["tables"] if table}
    assert state["prefix"] == "own" or len(starts) == 1
    assert 0 <= now["empty_pages"] <= (page - 1) * sum(map(bool, now["lengths"]))
    assert not any(now["owners"][p] for p in now["freed"])


def test_pages_of_the_chapter_give_the_same_attention(course):
    import torch

    K, V = torch.randn(2, 10, 8, generator=torch.Generator().manual_seed(0))
    table = []
    for t in range(10):
        course["append"](table, t, K[t], V[t])
    for n in (1, 4, 7, 10):
        result = course["paged"](K[0], course["K_pages"], course["V_pages"], table, n)
        expected = (K[:n] @ K[0] / 8**0.5).softmax(-1) @ V[:n]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert course["share"](table, 9) == table[:2] and course["owners"][:3] == [2, 2, 1]


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written and drawn."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-serving");
      const count = (name) => root.querySelectorAll(name).length;
      const texts = (name) => [...root.querySelectorAll(name)].map((node) => node.textContent);
      return {
        now: JSON.parse(root.dataset.now),
        boxes: count(".abh-box.abh-runs"), idle: count(".abh-idle"), waits: count(".abh-waits"),
        pages: count(".abh-owned") + count(".abh-shared"), shared: count(".abh-shared"), freed: count(".abh-freed"),
        numbers: texts(".abh-readouts b"), notes: texts(".abh-note"), tables: texts(".abh-tables")[0],
        pressed: [...root.querySelectorAll(".abh-tries button")].map((b) => b.getAttribute("aria-pressed") === "true"),
      };
    }""")


def check_shown(one):
    """Everything on show follows from the state."""
    now, state = one["now"], one["now"]["state"]
    check_equal(now, state)
    assert one["boxes"] == sum(state["steps"]) and one["idle"] == now["idle"]
    assert one["waits"] == round(6 * now["wait"])
    assert one["pages"] == now["taken"] and one["freed"] == len(now["freed"])
    assert one["shared"] == sum(len(who) > 1 for who in now["owners"])
    of = TEXT["of"].format(idle=now["idle"], all=figure.SIZES["slots"] * now["total"])
    assert one["numbers"][0] == of
    shown_wait, shown_end = map(float, one["numbers"][1:])
    assert abs(shown_wait - now["wait"]) <= 0.0501 and abs(shown_end - now["end"]) <= 0.0501
    assert str(now["empty_rows"]) in one["notes"][0] and str(now["empty_pages"]) in one["notes"][1]
    for table in filter(None, now["tables"]):
        assert " ".join(map(str, table)) in one["tables"]


def press(page, name):
    page.locator(FIGURE).get_by_role("button", name=name, exact=True).click()


def slide(page, name, value):
    page.locator(FIGURE).get_by_role("slider", name=name, exact=True).fill(str(value))


@pytest.mark.slow
@pytest.mark.browser
def test_the_steps_and_examples_are_shown(chapter):
    check_shown(shown(chapter))
    for k, example in enumerate(figure.EXAMPLES):
        press(chapter, TEXT["examples"][k])
        for step, state in enumerate(figure.STEPS):
            press(chapter, f"{step + 1} {TEXT['steps'][step]}")
            one = shown(chapter)
            check_shown(one)
            assert {**one["now"]["state"], **example, **state} == one["now"]["state"]
            assert one["pressed"] == [j == step for j in range(4)] + [j == k for j in range(3)]
    testing.says(chapter, "begin with the same eight tokens")


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_says_what_its_steps_show(chapter):
    items = chapter.locator("ol > li").filter(has=chapter.locator("em")).all_inner_texts()
    for step, (item, name) in enumerate(zip(items[:4], TEXT["steps"], strict=True)):
        assert item.startswith(name)
        press(chapter, f"{step + 1} {name}")
        one = shown(chapter)
        numbers = " ".join([*one["numbers"], *one["notes"], *map(str, figure.SIZES.values())])
        if step == 2:
            slide(chapter, TEXT["now"], 8)
            numbers += f" {shown(chapter)['freed']}"
        if step == 3:
            numbers += f" {figure.computed({**FIRST, **figure.STEPS[2]})['taken']}"
        for number in re.findall(r"\d+\.\d|\d+", item):
            assert number in numbers.split(), (item, number)


@pytest.mark.slow
@pytest.mark.browser
def test_requests_are_changed_with_sliders_and_keys(chapter):
    root = chapter.locator(FIGURE)
    for name, arrival, steps in (("B", 5, 1), ("A", 8, 8)):
        root.get_by_role("radio", name=name, exact=True).check()
        slide(chapter, TEXT["arrives"], arrival)
        slide(chapter, TEXT["needs"], steps)
        one = shown(chapter)
        check_shown(one)
        r = "ABCDEF".index(name)
        assert (one["now"]["state"]["arrivals"][r], one["now"]["state"]["steps"][r]) == (
            arrival,
            steps,
        )
        assert not any(one["pressed"][4:])
    root.get_by_role("slider", name=TEXT["arrives"], exact=True).focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        chapter.keyboard.press(key)
    one = shown(chapter)
    check_shown(one)
    assert one["now"]["state"]["arrivals"][0] == 7
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page


@pytest.mark.slow
@pytest.mark.browser
def test_a_bar_is_dragged_and_a_step_chosen(chapter):
    press(chapter, f"2 {TEXT['steps'][1]}")
    bar = chapter.locator(f"{FIGURE} .abh-thin[data-r='2']").first.bounding_box()
    x, y = bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2
    chapter.mouse.move(x, y)
    chapter.mouse.down()
    chapter.mouse.move(x + 3.1 * (bar["width"] + 2), y, steps=8)
    chapter.mouse.up()
    one = shown(chapter)
    check_shown(one)
    assert one["now"]["state"]["arrivals"][2] == 3 and one["now"]["state"]["chosen"] == 2
    chapter.locator(f"{FIGURE} .abh-box[data-t='5']").first.click()
    one = shown(chapter)
    check_shown(one)
    assert one["now"]["now"] == 5

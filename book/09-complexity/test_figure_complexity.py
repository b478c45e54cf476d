"""The figure of chapter 09 computes what the chapter's own Python computes, under node and in
the browser.
"""

import json

import numpy as np
import pytest
from figures import complexity as figure
from figures import gpu_record, testing

PAGE = "09-complexity"
FIGURE = ".abh-complexity"
CARD = {
    "name": "a card",
    "what": "PyTorch 9, 2026-01-01",
    "speed": {"float32": 5e13, "bfloat16": 8e14},
    "bandwidth": 3e12,
    "memory": 8e10,
}
RECORD = {
    "machine": {"device": "a card", "torch": "9+x", "date": "2026-01-01", "memory_gb": 80},
    "ceilings": {"copy_gb_s": 3000.0, "matmul_tflop_s": {"float32": 50.0, "bfloat16": 800.0}},
}


def in_python(course, state, machine):
    """All that the figure shows of one state, from the chapter's functions, head by head and
    text by text.
    """
    n, c, d, h, b, block = (
        state[name] for name in ("n", "context", "d_model", "num_heads", "batch", "block")
    )
    size, head = figure.DTYPES[state["dtype"]], d // h

    def alike(count, cost):
        return tuple(count * x for x in cost)

    mlp = [course["product"](b * n, d, 4 * d), course["product"](b * n, 4 * d, d)]
    steps = [
        course["product"](b * n, d, 3 * d),
        alike(b * h, course["product"](n, head, c + n)),
        (0, 2 * b * h * n * (c + n)),
        alike(b * h, course["product"](n, c + n, head)),
        course["product"](b * n, d, d),
        alike(block, map(sum, zip(*mlp, strict=True))),
    ]
    by_formula = (8 + 16 * block) * n * d**2 + 4 * n * (c + n) * d
    assert sum(operations for operations, _ in steps) == b * by_formula
    floors = [
        course["floor"](*step, size, machine["speed"][state["dtype"]], machine["bandwidth"])
        for step in steps
    ]
    least = [max(one) for one in floors]
    parameters = sum(
        rows * columns for rows, columns in 4 * [(d, d)] + block * [(d, 4 * d), (4 * d, d)]
    )
    biases = 4 * d + block * (4 * d + d)
    kept = [parameters + biases, 5 * b * n * d, 2 * b * h * n * (c + n), 2 * b * c * d]
    memory = [size * numbers for numbers in kept]
    by_arithmetic = sum(a for a, t in floors if a >= t)
    limit = "arithmetic" if by_arithmetic >= sum(least) / 2 else "traffic"
    moved = sum(numbers for _, numbers in steps)
    return {
        "steps": steps,
        "floors": floors,
        "least": least,
        "total": sum(least),
        "memory": memory,
        "needed": sum(memory),
        "ratio": (c + n) / (6 * d if block else 2 * d),
        "shares": [parameters / moved, 2 * b * c * d / moved],
        "limit": "size" if machine["memory"] and sum(memory) > machine["memory"] else limit,
    }


def check_equal(answer, expected):
    answer = dict(answer)
    answer["steps"] = [[step["operations"], step["numbers"]] for step in answer["steps"]]
    answer["floors"] = [[floor["arithmetic"], floor["traffic"]] for floor in answer["floors"]]
    answer["memory"] = [
        answer["memory"][name] for name in ("parameters", "tokens", "weights", "cache")
    ]
    answer["shares"] = [answer["shares"][name] for name in ("parameters", "cache")]
    assert answer.pop("limit") == expected["limit"]
    for name, value in expected.items():
        if name != "limit":
            np.testing.assert_allclose(answer[name], value, rtol=1e-12, err_msg=name)


# ---- under node
# ------------------------------------------------------------------------------------------


def test_costs_equal_the_chapters(course, tmp_path):
    rng, states = np.random.default_rng(9), []
    for _ in range(200):
        state = {name: int(rng.choice(stops)) for name, stops in figure.STOPS.items()}
        states.append(
            state | {"dtype": str(rng.choice(list(figure.DTYPES))), "block": int(rng.integers(2))}
        )
    cases = [
        {"state": state, "bytes": figure.DTYPES[state["dtype"]], "machine": CARD}
        for state in states
    ]
    answers = testing.in_node(tmp_path, "complexity", "m.cost(c.state, c.bytes, c.machine)", cases)
    for state, answer in zip(states, answers, strict=True):
        check_equal(answer, in_python(course, state, CARD))
    assert {answer["limit"] for answer in answers} == {"arithmetic", "traffic", "size"}


def test_products_cost_what_entry_by_entry_counting_finds(course, tmp_path):
    for n, k, m in [(1, 1, 1), (4, 2, 2), (3, 5, 7)]:
        operations = sum(2 for _i in range(n) for _j in range(m) for _term in range(k))
        expected = (operations, n * k + k * m + n * m)
        assert course["product"](n, k, m) == expected
        (answer,) = testing.in_node(tmp_path, "complexity", "m.product(...c)", [[n, k, m]])
        assert tuple(answer.values()) == expected


def test_the_costs_cross_at_twice_the_width(tmp_path):
    states = [figure.START | {"d_model": d, "n": 2 * d} for d in figure.STOPS["d_model"]]
    cases = [{"state": state, "machine": CARD} for state in states]
    answers = testing.in_node(tmp_path, "complexity", "m.cost(c.state, 4, c.machine).ratio", cases)
    assert answers == [1] * len(states)
    whole = [
        {**case, "state": case["state"] | {"block": 1, "n": 6 * case["state"]["d_model"]}}
        for case in cases
    ]
    assert (
        testing.in_node(tmp_path, "complexity", "m.cost(c.state, 4, c.machine).ratio", whole)
        == answers
    )


def test_a_machine_whose_memory_is_unknown_never_runs_out(tmp_path):
    state = figure.START | {"n": figure.STOPS["n"][-1]}
    cases = [{"state": state, "machine": CARD | {"memory": memory}} for memory in (0, 1e9)]
    answers = testing.in_node(tmp_path, "complexity", "m.cost(c.state, 4, c.machine).limit", cases)
    assert answers[0] != "size" and answers[1] == "size"


def test_numbers_have_units(tmp_path):
    cases = [3.21e-3, 0.999e-6, 12345.6, 1.5e-9, 0.09996]
    seconds = testing.in_node(tmp_path, "complexity", "m.inSeconds(c)", cases)
    assert seconds == ["3.21 ms", "999 ns", "12,346 s", "1.50 ns", "100 ms"]
    assert testing.in_node(tmp_path, "complexity", "m.inBytes(c)", [64, 2e6, 3.2e9, 3.2e13]) == [
        "64.0 B", "2.00 MB", "3.20 GB", "32.0 TB",
    ]  # fmt: skip


def test_each_thing_to_try_is_what_the_page_says_of_it(course):
    short, crossing, long, many, token, _card = (
        in_python(course, state, CARD) for state in figure.TRIES
    )
    assert (short["least"][0] + short["least"][4]) / short["total"] > 0.5
    assert (
        crossing["ratio"] == 1
        and crossing["steps"][2][0] == 0
        and crossing["least"][2] > crossing["floors"][1][0]
    )
    assert long["ratio"] == 16 and long["memory"][2] > 50 * sum(long["memory"][:2])
    assert many["memory"][2] == 8 * long["memory"][2] and sum(many["memory"][:2]) == sum(
        long["memory"][:2]
    )
    assert sum(step[0] for step in many["steps"]) == sum(step[0] for step in long["steps"])
    assert token["limit"] == "traffic"
    parameters, cache = token["shares"]
    assert 0.95 < parameters / cache < 1.05 and parameters + cache > 0.95
    # A batch shares the parameters. Each of its texts has a cache of its own.
    alone, batch = (figure.START | {"n": 1, "batch": b} for b in (1, 8))
    assert in_python(course, batch, CARD)["total"] < 1.1 * in_python(course, alone, CARD)["total"]
    few = in_python(course, batch | {"context": 1024}, CARD)
    assert 4 < few["total"] / token["total"] < 5 and few["shares"][1] > 0.8


def test_a_gpus_record_gives_what_is_in_it_and_nothing_else():
    assert gpu_record.card(RECORD) == CARD
    assert (
        gpu_record.read("data/nothing.json") == {}
        and gpu_record.read("data/gpu.json")["machine"]["device"]
    )
    unknown = {name: value for name, value in RECORD["machine"].items() if name != "memory_gb"}
    assert gpu_record.card({**RECORD, "machine": unknown})["memory"] == 0
    row = {"implementation": "naive", "n": 512, "direction": "forward", "milliseconds": 2.0}
    too_large = row | {"n": 1024, "milliseconds": None}
    rows = gpu_record.rows({"attention": [row, too_large]}, "attention", direction="forward")
    assert rows == {"naive": {512: row}}
    for record in (
        {},
        {"machine": RECORD["machine"]},
        {"attention": [row | {"direction": "backward"}]},
    ):
        assert gpu_record.card(record) is None
        assert gpu_record.rows(record, "attention", direction="forward") == {}


def test_a_table_of_a_record_has_no_line_with_a_gap():
    head = ["what", "tables", "fused"]
    assert gpu_record.table(head, [["time", 3, None], ["bytes", None, None]]) == ""
    made = gpu_record.table(head, [["time", 3, None], ["bytes", "1 GB", 0]])
    assert made.splitlines() == [
        "| what | tables | fused |",
        "| --- | ---: | ---: |",
        "| bytes | 1 GB | 0 |",
    ]


def test_a_box_names_each_part_that_was_not_measured():
    parts = {"attention": "attention", "rnn": "a GRU", "layer": "a layer"}
    sentence = gpu_record.awaits({"attention": [], "layer": [1]}, parts)
    assert (
        "measures attention and a GRU," in sentence
        and gpu_record.COMMAND in sentence
        and "layer" not in sentence
    )
    assert "measures attention, a GRU and a layer," in gpu_record.awaits({}, parts)
    assert sentence in gpu_record.box({"attention": [], "layer": [1]}, parts).data
    whole = {name: [1] for name in parts}
    assert gpu_record.awaits(whole, parts) == "" and gpu_record.box(whole, parts) is None


def test_this_machine_is_named():
    device = figure.here(CARD["speed"], CARD["bandwidth"])
    assert device["name"] and "one thread, PyTorch" in device["what"] and device["memory"] > 2**28
    assert (device["speed"], device["bandwidth"]) == (CARD["speed"], CARD["bandwidth"])


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.3, 0.8, 2.0], "between 32 and 64 tokens"),
        ([1.5, 0.8, 2.0], "between 32 and 64 tokens"),
        ([0.3, 1.2, 0.9], "at no length up to 64 tokens"),
        ([1.5, 1.2, 2.0], "below 16 tokens, the shortest measured"),
    ],
)
def test_the_last_crossing_counts(ratios, expected):
    assert figure.crossed([16, 32, 64], ratios) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(64, "64 bytes"), (4.2e6, "4.2 MB"), (3.2e9, "3.2 GB"), (25.3e9, "25 GB"), (3.2e14, "320 TB")],
)
def test_sizes_in_sentences(count, expected):
    assert figure.size(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0312, "31 milliseconds"), (0.97, "1.0 seconds"), (150, "2.5 minutes"), (9000, "2.5 hours")],
)
def test_times_in_sentences(seconds, expected):
    assert figure.duration(seconds) == expected


def test_the_figure_refuses_what_it_cannot_show():
    for machines in ([], [CARD, None]):
        with pytest.raises(ValueError, match="machines that were measured"):
            figure.ComplexityFigure(machines)
    with pytest.raises(ValueError, match="at a stop"):
        figure.ComplexityFigure([CARD], state=figure.START | {"n": 1000})


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is drawn and written."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-complexity");
      const all = (name, of) => [...root.querySelectorAll(name)].map(of);
      return {
        now: JSON.parse(root.dataset.now),
        arithmetic: all(".abh-track .abh-arithmetic", (bar) => parseFloat(bar.style.width)),
        traffic: all(".abh-track .abh-traffic", (bar) => parseFloat(bar.style.width)),
        memory: all("dd", (node) => node.textContent),
        outputs: all(".abh-slider output", (node) => Number(node.textContent.replaceAll(",", ""))),
        pressed: all(".abh-tries button", (node) => node.getAttribute("aria-pressed") === "true"),
        off: all(".abh-off th", (node) => node.textContent),
        labels: all(".abh-track", (node) => node.getAttribute("aria-label")),
      };
    }""")


@pytest.fixture
def machines(chapter):
    """What the page was built with, read from the page itself."""
    states = json.loads(
        chapter.locator('script[type="application/vnd.jupyter.widget-state+json"]').text_content()
    )
    (cell,) = [
        one["state"]["machines"] for one in states["state"].values() if "machines" in one["state"]
    ]
    return cell


def check_shown(page, course, machines, **wanted):
    """The figure is in the state that is wanted, and all it shows follows from that."""
    one = shown(page)
    state = one["now"].pop("state")
    for name, value in wanted.items():
        assert state[name] == value, name
    expected = in_python(course, state, machines[state["machine"]])
    check_equal(one["now"], expected)
    longest = max(expected["least"])
    np.testing.assert_allclose(
        one["arithmetic"], [100 * a / longest for a, _ in expected["floors"]], atol=0.01
    )
    np.testing.assert_allclose(
        one["traffic"], [100 * t / longest for _, t in expected["floors"]], atol=0.01
    )
    assert one["outputs"] == [state[name] for name in figure.STOPS]
    assert one["off"] == ([] if state["block"] else ["MLP"])
    assert all(label and "{" not in label and "NaN" not in label for label in one["labels"])
    return one


@pytest.mark.slow
@pytest.mark.browser
def test_the_buttons_set_what_they_name(chapter, course, machines):
    check_shown(chapter, course, machines, **figure.START)
    buttons = chapter.locator(f"{FIGURE} .abh-tries button")
    for i, wanted in enumerate(figure.TRIES):
        buttons.nth(i).click()
        one = check_shown(chapter, course, machines, **wanted)
        assert one["pressed"] == [j == i for j in range(len(figure.TRIES))]
    chapter.locator(f"{FIGURE} .abh-summary", has_text="at least").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_sliders_and_choices_show_pythons_numbers(chapter, course, machines):
    for number, (name, stops) in enumerate(figure.STOPS.items()):
        for at in (0, len(stops) - 1):
            chapter.locator(f"{FIGURE} input[type=range]").nth(number).evaluate(
                "(input, at) => { input.value = at; input.dispatchEvent(new Event('input', { "
                "bubbles: true })); }",
                at,
            )
            check_shown(chapter, course, machines, **{name: stops[at]})
    chapter.locator(f"{FIGURE} .abh-summary", has_text="can’t run").wait_for(timeout=3000)
    chapter.locator(FIGURE).get_by_role("radio", name="bfloat16").check(force=True)
    check_shown(chapter, course, machines, dtype="bfloat16")
    chapter.locator(FIGURE).get_by_role("radio", name="whole block").check(force=True)
    check_shown(chapter, course, machines, block=1)
    chapter.locator(f"{FIGURE} .abh-summary", has_text="The block takes at least").wait_for(
        timeout=3000
    )


@pytest.mark.slow
@pytest.mark.browser
def test_keys_are_enough(chapter, course, machines):
    chapter.locator(f"{FIGURE} input[type=range]").first.focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, course, machines, n=2 * figure.START["n"])
    chapter.keyboard.press("Tab")
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, course, machines, context=figure.STOPS["context"][1])
    chapter.keyboard.press("Tab")
    chapter.keyboard.press("ArrowLeft")
    check_shown(chapter, course, machines, d_model=figure.START["d_model"] // 2)
    chapter.locator(f"{FIGURE} .abh-tries button").first.focus()
    chapter.keyboard.press("Enter")
    check_shown(chapter, course, machines, **figure.TRIES[0])
    assert chapter.url.endswith(f"/{PAGE}.html")

"""The figure of chapter 10 computes what the chapter's own Python computes, under node and in
the browser.
"""

import re

import numpy as np
import pytest
import torch
from figures import efficient as figure
from figures import testing

from autograder.authoring import loader

PAGE = "10-efficient"
FIGURE = ".abh-efficient"


@pytest.fixture(scope="module")
def model():
    return figure.train()


def test_each_thing_to_try_shows_the_head_that_the_page_speaks_of():
    text = (loader.ROOT / "book" / "10-efficient.md").read_text(encoding="utf8")
    items = re.findall(r"^\d\. \*(.+?)\*:? ?(.*)$", text, re.M)
    assert [name for name, _ in items] == figure.TEXT["tries"]
    said = {name: int(head[1]) for name, told in items if (head := re.search(r"head (\d)", told))}
    shown = dict(zip(figure.TEXT["tries"], figure.TRIES, strict=True))
    assert said and said == {name: shown[name]["head"] + 1 for name in said}


def outputs(qkv, state):
    """What each method gives, by the module's functions."""
    return {
        "full": figure.attend(*qkv),
        "chunks": figure.chunked(*qkv, state["chunk"]),
        "window": figure.windowed(*qkv, state["window"]),
        "linear": figure.linear(*qkv),
        "grouped": figure.grouped(*qkv, state["num_kv_heads"]),
    }


def in_python(qkv, state):
    """All numbers of the figure's table in one state, counted one by one where they are counts."""
    h, n, d = qkv[0].shape
    found, head = outputs(qkv, state), state["head"]
    near = sum(abs(i - j) <= state["window"] for i in range(n) for j in range(n))
    A = (qkv[0] @ qkv[1].mT / d**0.5).softmax(-1)[head]
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return {
        "pairs": [n * n, n * n, near, 0, n * n],
        "held": [n * n, n * (state["chunk"] + 2), near, d * d + d, n * n],
        "cache": [2 * h * d] * 3 + [0, 2 * state["num_kv_heads"] * d],
        "error": [figure.apart(found[name][head], found["full"][head]) for name in figure.METHODS],
        "error_all": [figure.apart(found[name], found["full"]) for name in figure.METHODS],
        "kept": (A * ((i - j).abs() <= state["window"])).sum().item() / n,
    }


def check_equal(answer, expected):
    for name, values in expected.items():
        found = (
            answer["kept"]
            if name == "kept"
            else [answer["rows"][one][name] for one in figure.METHODS]
        )
        np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12, err_msg=name)


# ---- under node
# ------------------------------------------------------------------------------------------


def random_qkv(seed):
    torch.manual_seed(seed)
    return torch.randn(3, 4, figure.CARDS, 8, dtype=torch.float64)


def test_the_table_equals_pythons(tmp_path):
    rng, states = np.random.default_rng(10), list(figure.TRIES)
    for _ in range(20):
        state = {name: int(rng.choice(stops)) for name, stops in figure.STOPS.items()}
        states.append(
            state | {"head": int(rng.integers(4)), "method": str(rng.choice(figure.METHODS))}
        )
    qkv = random_qkv(0)
    cases = [{"qkv": qkv.tolist(), "state": state} for state in states]
    answers = testing.in_node(tmp_path, "efficient", "m.compare(c.qkv, c.state)", cases)
    for state, answer in zip(states, answers, strict=True):
        check_equal(answer, in_python(qkv, state))
        np.testing.assert_allclose(np.sum(answer["A"], -1), 1)


def test_chunks_of_any_size_equal_the_full_one(tmp_path, course):
    Q, K, V = (30 * random_qkv(1))[:, 0]
    full = figure.attend(Q, K, V)
    sizes = [1, 5, 7, 24, 100]
    cases = [{"qkv": [Q.tolist(), K.tolist(), V.tolist()], "size": size} for size in sizes]
    answers = testing.in_node(tmp_path, "efficient", "m.chunks(...c.qkv, c.size)", cases)
    for size, answer in zip(sizes, answers, strict=True):
        np.testing.assert_allclose(answer, full, atol=1e-10)
        np.testing.assert_allclose(figure.chunked(Q, K, V, size), full, atol=1e-10)
        rows = torch.stack([course["online"](q, K, V, size) for q in Q])
        np.testing.assert_allclose(rows, full, atol=1e-10)


def test_windows_equal_a_mask_and_the_chapters_rows(tmp_path, course):
    Q, K, V = random_qkv(2)[:, 0]
    i, j = torch.arange(len(Q))[:, None], torch.arange(len(Q))
    for window in (0, 1, 5, 23):
        S = (Q @ K.mT / 8**0.5).masked_fill((i - j).abs() > window, -torch.inf)
        expected = S.softmax(-1) @ V
        case = {"qkv": [Q.tolist(), K.tolist(), V.tolist()], "window": window}
        (answer,) = testing.in_node(tmp_path, "efficient", "m.local(...c.qkv, c.window)", [case])
        np.testing.assert_allclose(answer["Z"], expected, atol=1e-12)
        np.testing.assert_allclose(answer["A"], S.softmax(-1), atol=1e-12)
        np.testing.assert_allclose(figure.windowed(Q, K, V, window), expected, atol=1e-12)
        rows = [course["local_row"](k, Q, K, V, window) for k in range(len(Q))]
        np.testing.assert_allclose(torch.stack(rows), expected, atol=1e-12)


def test_linear_attention_is_its_weights_times_values(tmp_path, course):
    Q, K, V = random_qkv(3)[:, 0]
    case = [Q.tolist(), K.tolist(), V.tolist()]
    (answer,) = testing.in_node(tmp_path, "efficient", "m.linear(...c)", [case])
    W = course["phi"](Q) @ course["phi"](K).mT
    expected = W / W.sum(-1, keepdim=True)
    np.testing.assert_allclose(answer["A"], expected, atol=1e-12)
    np.testing.assert_allclose(answer["Z"], expected @ V, atol=1e-12)
    np.testing.assert_allclose(figure.linear(Q, K, V), expected @ V, atol=1e-12)


def test_averages_of_heads(tmp_path):
    heads = random_qkv(4)[0]
    for count in figure.STOPS["num_kv_heads"]:
        case = {"heads": heads.tolist(), "count": count}
        (answer,) = testing.in_node(tmp_path, "efficient", "m.pooled(c.heads, c.count)", [case])
        np.testing.assert_allclose(answer, figure.averaged(heads, count), atol=1e-12)


def test_bytes_are_those_of_what_is_there_at_once():
    x = torch.zeros(1000, dtype=torch.float64)

    def one_after_another(x):
        for _ in range(5):
            y = x + 1
            del y

    def views(x):
        y = x + 1
        return y[:10], y.view(10, 100), x[5:]

    assert figure.most_bytes(one_after_another, x) == 8000
    assert figure.most_bytes(lambda x: [x + 1 for _ in range(5)], x) == 40_000
    assert figure.most_bytes(views, x) == 8000


@pytest.mark.slow
def test_the_model_knows_its_cards_and_each_thing_to_try_is_as_the_page_says(model):
    left, twin = figure.looks(model)
    assert min(figure.correct(model)) > 0.98
    assert left.argmax() == 0 and twin.argmax() == 3
    qkv = figure.inputs(model)
    rows = [in_python(qkv, state) for state in figure.TRIES]
    assert rows[1]["held"][1] < rows[0]["held"][0] and rows[1]["error"][1] < 1e-12
    assert rows[2]["kept"] > 0.5 > rows[3]["kept"]
    assert rows[2]["error"][2] < rows[3]["error"][2]
    assert rows[5]["cache"][4] == rows[5]["cache"][0] // 2
    assert figure.train(steps=2).W_q.equal(figure.train(steps=2).W_q)


def test_the_figure_refuses_what_it_cannot_show(model):
    with pytest.raises(ValueError, match="wants a model with 4"):
        figure.EfficientFigure(figure.train(1, steps=1))
    with pytest.raises(ValueError, match="a stop of each slider"):
        figure.EfficientFigure(model, state=figure.START | {"chunk": 5})


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is drawn and written."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-efficient");
      const all = (name, of) => [...root.querySelectorAll(name)].map(of);
      return {
        now: JSON.parse(root.dataset.now),
        opacities: all(".abh-cell", (cell) => Number(cell.style.fillOpacity)),
        out: all(".abh-cell.abh-out", () => 1).length,
        chosen: all("tbody tr.abh-chosen th", (node) => node.textContent),
        pairs: all("tbody td:nth-child(2) > span:first-child", (node) => Number(node.textContent)),
        errors: all("tbody td:nth-child(5) > span:first-child", (node) => node.textContent),
        outputs: all(".abh-slider output", (node) => Number(node.textContent)),
        pressed: all(".abh-tries button", (node) => node.getAttribute("aria-pressed") === "true"),
        label: root.querySelector("svg").getAttribute("aria-label"),
      };
    }""")


def check_shown(page, model, **wanted):
    """The figure is in the state that is wanted, and all it shows follows from that."""
    one = shown(page)
    state = one["now"]["state"]
    assert {name: state[name] for name in wanted} == wanted
    expected = in_python(figure.inputs(model), state)
    # The page was built elsewhere perhaps: what was trained may differ in a few digits, but counts
    # may not.
    assert one["pairs"] == expected["pairs"]
    assert one["outputs"] == [state[name] for name in figure.STOPS]
    assert one["chosen"] == [figure.TEXT["methods"][figure.METHODS.index(state["method"])]]
    assert one["errors"][:2] == ["0", "0"] and all(
        text[-1] == "%" or text == "0" for text in one["errors"]
    )
    np.testing.assert_allclose(np.sum(np.reshape(one["opacities"], (24, 24)), -1), 1, atol=1e-3)
    assert one["out"] == (24**2 - expected["pairs"][2] if state["method"] == "window" else 0)
    assert "{" not in one["label"] and "NaN" not in one["label"]
    return one


@pytest.mark.slow
@pytest.mark.browser
def test_the_buttons_set_what_they_name(chapter, model):
    check_shown(chapter, model, **figure.START)
    buttons = chapter.locator(f"{FIGURE} .abh-tries button")
    for i, wanted in enumerate(figure.TRIES):
        buttons.nth(i).click()
        one = check_shown(chapter, model, **wanted)
        assert one["pressed"] == [j == i for j in range(len(figure.TRIES))]
    chapter.locator(f"{FIGURE} .abh-summary", has_text="Key heads").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_a_slider_chooses_its_method(chapter, model):
    methods = {"chunk": "chunks", "window": "window", "num_kv_heads": "grouped"}
    for number, (name, stops) in enumerate(figure.STOPS.items()):
        for at in (0, len(stops) - 1):
            chapter.locator(f"{FIGURE} input[type=range]").nth(number).evaluate(
                "(input, at) => { input.value = at; input.dispatchEvent(new Event('input', { "
                "bubbles: true })); }",
                at,
            )
            check_shown(chapter, model, **{name: stops[at], "method": methods[name]})
    chapter.locator(FIGURE).get_by_role("radio", name="Linear").check(force=True)
    check_shown(chapter, model, method="linear")


@pytest.mark.slow
@pytest.mark.browser
def test_keys_are_enough(chapter, model):
    chapter.locator(f"{FIGURE} input[type=range]").nth(1).focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, model, window=figure.START["window"] + 1, method="window")
    chapter.locator(f"{FIGURE} .abh-tries button").first.focus()
    chapter.keyboard.press("Enter")
    check_shown(chapter, model, **figure.TRIES[0])
    assert chapter.url.endswith(f"/{PAGE}.html")

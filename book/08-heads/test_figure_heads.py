"""The figure of chapter 08 shows what the chapter's own model does without the heads that are
cut.
"""

import itertools
import json

import numpy as np
import pytest
import records
import torch
from figures import heads as figure
from figures import testing

PAGE = "08-heads"
FIGURE = ".abh-heads"
TEXT = figure.TEXT
HEADS = list(itertools.product(range(2), range(4)))


@pytest.fixture(scope="module")
def untrained():
    """A model with nearly random numbers, and what is left of it: that must agree as well."""
    model = figure.train(steps=2)
    return model, figure.cuts(model, windows=5)


@pytest.fixture(scope="module")
def trained(course):
    """The model of the page, and what is left of it, as they are recorded."""
    found, learned, *_ = (cell["values"] for cell in records.read("08-heads")["cells"])
    model = course["TinyGPT"]().double().requires_grad_(False)
    model.load_state_dict(records.decoded(learned["learned"]))
    return model, records.decoded(found["found"])


def without(course, model, cut, windows):
    """Loss, far and past verbs, forms and weights without some heads, with the page's own
    functions, straight on.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    for layer, block in enumerate(model.blocks):
        block.keep = torch.tensor([0.0 if (layer, head) in cut else 1.0 for head in range(4)])
    window = course["windows"](course["text_of"](1, 2000))[:windows]
    loss = torch.nn.functional.cross_entropy(model(window[:, :-1]).mT, window[:, 1:]).item()

    def forms(words):
        y = model(figure.numbers_of(words))[0, -1].softmax(-1)
        return [
            sum(y[course["VOCABULARY"].index(verb[k])].item() for verb in course["VERBS"])
            for k in range(3)
        ]

    shares = [
        np.mean([np.argmax(forms(words)) == right for words, right in verbs])
        for verbs in (figure.far_verbs(), figure.past_verbs())
    ]
    shown = []
    for words in (figure.FAR, figure.PAST, figure.NEAR):
        chances = forms(words)
        shown.append((chances, [block.A[0, :, -1].tolist() for block in model.blocks]))
    for block in model.blocks:
        block.keep = torch.ones(4)
    torch.set_default_dtype(before)
    return {
        "loss": loss, "far": shares[0], "past": shares[1],
        "forms": [forms for forms, _ in shown], "weights": [weights for _, weights in shown],
    }  # fmt: skip


def check_left(answer, expected):
    """What the figure computes is what the page's functions say, to the digits that it was
    given.
    """
    for name, exact in (("loss", 6e-5), ("far", 6e-5), ("past", 6e-5), ("forms", 6e-5)):
        np.testing.assert_allclose(answer[name], expected[name], atol=exact, err_msg=name)
    for mine, theirs in zip(answer["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [[], [(0, 0)], [(1, 3)], [(0, 1), (0, 2), (1, 0)], HEADS])
def test_what_is_left_is_what_the_chapter_computes(course, untrained, tmp_path, cut):
    model, found = untrained
    shown = figure.HeadsFigure(found)
    case = {"found": shown.found, "shape": shown.shape, "cut": cut}
    (answer,) = testing.in_node(tmp_path, "heads", "m.left(c.found, c.shape, c.cut)", [case])
    check_left(answer, without(course, model, cut, windows=5))


@pytest.mark.slow
def test_a_cost_is_the_difference_to_the_whole(untrained, tmp_path):
    _, found = untrained
    shown = figure.HeadsFigure(found)
    cases = [
        {"found": shown.found, "shape": shown.shape, "cut": cut} for cut in ([], [(0, 3)], HEADS)
    ]
    costs = testing.in_node(tmp_path, "heads", "m.cost(c.found, c.shape, c.cut)", cases)
    loss = found["loss"].round(decimals=4)
    np.testing.assert_allclose(costs, (loss[[255, 255 - 16, 0]] - loss[255]).tolist(), atol=1e-9)


def test_the_first_layer_looks_the_same_whatever_is_cut(untrained):
    # So the figure is given one row of weights for each head there, and 16 for each of the last
    # layer.
    for weights in untrained[1]["weights"]:
        assert torch.equal(weights[:, 0], weights[:1, 0].expand_as(weights[:, 0]))
        blocks = weights[:, 1].unflatten(0, (16, 16))
        assert torch.equal(blocks, blocks[:, :1].expand_as(blocks))
        assert not torch.allclose(blocks[0, 0], blocks[15, 0])


def test_far_verbs_and_past_verbs_are_what_they_are_called(course):
    far, past = figure.far_verbs(), figure.past_verbs()
    assert (len(far), len(past)) == (108, 36) == (len(set(far)), len(set(past)))
    numbers = {noun: many for pair in course["NOUNS"] for many, noun in enumerate(pair)}
    for words, right in far:
        one, other = (numbers[word] for word in words.split() if word in numbers)
        assert one == right != other
    assert all(words.split()[1] == "yesterday" and right == 2 for words, right in past)


def test_the_text_is_chapter_7s_with_one_sentence_in_eight_in_the_past(course):
    text = " ".join(course["VOCABULARY"][number] for number in course["text_of"](3, 4000).tolist())
    sentences = text.split(" .")[:-1]
    assert len(sentences) == 4000
    past = {verb[2] for verb in course["VERBS"]}
    present = {form for verb in course["VERBS"] for form in verb[:2]}
    share = 0
    for sentence in sentences:
        words = set(sentence.split())
        share += "yesterday" in words
        assert not words & (present if "yesterday" in words else past), sentence
    assert 0.105 < share / 4000 < 0.145
    assert any("that the" in sentence for sentence in sentences)


def test_picks_are_what_the_buttons_say():
    loss = torch.zeros(256, dtype=torch.float64)
    cost = dict(zip(HEADS, (0.05, 0.3, 0.2, 0.01, 0.4, 0.02, 0.03, 0.5), strict=True))
    for place, kept in enumerate(itertools.product((0, 1), repeat=8)):
        cut = [head for head, keep in zip(HEADS, kept, strict=True) if not keep]
        loss[place] = (
            1 + sum(cost[head] for head in cut) + (0.2 if {(0, 0), (1, 2)} <= set(cut) else 0)
        )
    looks = [
        torch.zeros(256, 2, 4, len(words.split()))
        for words in (figure.FAR, figure.PAST, figure.NEAR)
    ]
    looks[0][:, 1, 2, 2] = 0.9
    looks[1][:, 1, 0, 1], looks[1][:, 1, 3, 1] = 0.5, 0.7
    assert figure.picks({"loss": loss, "weights": looks}, [2, 4]) == {
        "subject": [[1, 2]], "past": [[1, 3]], "also": [[1, 0]],
        "idle": [[0, 0], [0, 3], [1, 1], [1, 2]], "pair": [[0, 0], [1, 2]],
    }  # fmt: skip


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-heads");
      const text = (node) => node.textContent.replaceAll("\\u2212", "-");
      return {
        now: JSON.parse(root.dataset.now),
        boxes: [...root.querySelectorAll(".abh-knife input")].map((box) => box.checked),
        gone: [...root.querySelectorAll(".abh-head-row")].map((row) => row.classList.contains("abh-gone")),
        words: [...root.querySelectorAll(".abh-head-row")].map(
          (row) => [...row.querySelectorAll(".abh-weight-word")].map((cell) => cell.firstChild.textContent)),
        meters: [...root.querySelectorAll(".abh-meters strong")].map(text),
        shares: [...root.querySelectorAll(".abh-verbs .abh-share")].map(text),
        fits: [...root.querySelectorAll(".abh-verbs li")].map((item) => item.classList.contains("abh-fits")),
      };
    }""")


def check_shown(course, model, one):
    """Everything on show follows from the model and the heads that are cut."""
    now = one["now"]
    cut = [tuple(pair) for pair in now["cut"]]
    expected = without(course, model, cut, windows=figure.WINDOWS)
    check_left(now, expected)
    assert one["boxes"] == one["gone"] == [head in cut for head in HEADS]
    assert float(one["meters"][0]) == pytest.approx(expected["loss"], abs=6e-4)
    assert one["meters"][1:] == [testing.percent(now[name]) for name in ("far", "past")]
    assert one["shares"] == [testing.percent(p) for p in now["forms"][now["reading"]]]
    words = (figure.FAR, figure.PAST, figure.NEAR)[now["reading"]].split()
    assert one["words"] == [words] * 8
    assert one["fits"] == [form == (0, 2, 1)[now["reading"]] for form in range(3)]


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_cut_what_they_say(chapter, course, trained):
    model, found = trained
    picks = figure.picks(found, [2, 4])
    for name in ("past", "also", "subject", "pair", "idle", "none", "whole"):
        chapter.locator(FIGURE).get_by_role("button", name=TEXT[f"try_{name}"], exact=True).click()
        one = shown(chapter)
        assert one["now"]["cut"] == picks.get(
            name, [list(head) for head in HEADS] if name == "none" else []
        )
        check_shown(course, model, one)


@pytest.mark.slow
@pytest.mark.browser
def test_heads_are_cut_and_given_back_one_by_one(chapter, course, trained):
    boxes = chapter.locator(f"{FIGURE} .abh-knife input")
    assert boxes.count() == 8 and not any(shown(chapter)["boxes"])
    for place in (7, 2):
        boxes.nth(place).check()
    chapter.locator(FIGURE).get_by_role("radio").nth(1).check(force=True)
    one = shown(chapter)
    assert one["now"]["cut"] == [[1, 3], [0, 2]] and one["now"]["reading"] == 1
    check_shown(course, trained[0], one)
    says = chapter.locator(f"{FIGURE} .abh-summary")
    says.filter(has_text="2 of 8 heads are cut").wait_for(timeout=3000)
    boxes.nth(7).uncheck()
    says.filter(has_text="One head is cut").wait_for(timeout=3000)
    check_shown(course, trained[0], shown(chapter))


@pytest.mark.slow
@pytest.mark.browser
def test_the_data_of_the_figure_is_small(site, page):
    page.goto(f"{site}/book/{PAGE}.html")
    page.locator(f"{FIGURE} input").first.wait_for(state="attached", timeout=30_000)
    states = page.locator(
        'script[type="application/vnd.jupyter.widget-state+json"]'
    ).all_inner_texts()
    found = [
        data
        for state in states
        for data in json.loads(state)["state"].values()
        if "picks" in data["state"]
    ]
    assert len(found) == 1 and len(json.dumps(found[0]["state"]["found"])) < 60_000

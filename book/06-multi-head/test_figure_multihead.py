"""The figure of chapter 06 computes what the chapter's own Python computes, under node and in
the browser.
"""

import numpy as np
import pytest
import records
import torch
from figures import multihead as figure
from figures import testing

PAGE = "06-multi-head"
FIGURE = ".abh-multihead"
TEXT = figure.TEXT
STEPS = len(TEXT["step_names"])


def untrained(num_heads, seed=0):
    """A model with random numbers: what it computes must agree as well."""
    return figure.train(num_heads, seed=seed, steps=2)


def in_python(course, model, letters, digits, silent=()):
    """Everything the figure shows, by the chapter's functions; `model` is a dictionary of
    arrays.
    """
    M = {
        name: torch.tensor(value, dtype=torch.float64)
        for name, value in model.items()
        if name not in ("correct",)
    }
    h = int(model["num_heads"])
    X = M["letters"][list(letters)] + M["digits"][list(digits)] + M["places"]
    Z, A = course["attend"](*(course["split"](X @ M[name], h) for name in ("W_q", "W_k", "W_v")))
    Z = Z.clone()
    Z[list(silent)] = 0
    mixed = course["merge"](Z) @ M["W_o"]
    scores = mixed @ M["readout"]
    parts = []
    for t in range(h):
        alone = torch.zeros_like(Z)
        alone[t] = Z[t]
        parts.append(course["merge"](alone) @ M["W_o"] @ M["readout"])
    answers = scores.unflatten(-1, (2, figure.DIGITS)).softmax(-1)
    everything = {
        "weights": A, "messages": Z, "joined": course["merge"](Z), "mixed": mixed, "scores": scores,
        "parts": torch.stack(parts), "answers": answers,
    }  # fmt: skip
    return {name: value.numpy() for name, value in everything.items()}


def as_data(model):
    """A model as the figure has it."""
    return {"num_heads": model.num_heads} | {
        name: value.tolist() for name, value in model.named_parameters()
    }


def check_equal(answer, expected):
    for name, value in expected.items():
        assert np.shape(answer[name]) == value.shape, name
        np.testing.assert_allclose(answer[name], value, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.slow
def test_the_layer_equals_the_chapter(course, tmp_path):
    generator, cases = torch.Generator().manual_seed(6), []
    for count in (1, 2, 4, 8, 16):
        model = as_data(untrained(count))
        for silent in ([], [0], list(range(count))):
            letters, digits = (cards[0].tolist() for cards in figure.deal(1, generator))
            cases.append({"model": model, "letters": letters, "digits": digits, "silent": silent})
    expression = "m.layer(m.embed(c.letters, c.digits, c.model), c.model, c.silent)"
    answers = testing.in_node(tmp_path, "multihead", expression, cases)
    assert len(answers) == len(cases) == 15
    for case, answer in zip(cases, answers, strict=True):
        check_equal(answer, in_python(course, **case))


def test_the_parts_of_the_heads_add_up_to_the_scores(tmp_path):
    letters, digits = (tensor.tolist() for tensor in figure.cards())
    cases = [
        {"model": as_data(untrained(count)), "letters": letters, "digits": digits}
        for count in (1, 4)
    ]
    expression = "m.layer(m.embed(c.letters, c.digits, c.model), c.model)"
    for answer in testing.in_node(tmp_path, "multihead", expression, cases):
        np.testing.assert_allclose(np.sum(answer["parts"], axis=0), answer["scores"], atol=1e-9)


def test_split_and_merge_are_the_chapters(course, tmp_path):
    X = np.arange(24.0).reshape(3, 8)
    for count in (1, 2, 8):
        (answer,) = testing.in_node(tmp_path, "multihead", f"m.split(c, {count})", [X.tolist()])
        np.testing.assert_array_equal(answer, course["split"](torch.tensor(X), count).numpy())
        (back,) = testing.in_node(tmp_path, "multihead", "m.merge(c)", [answer])
        np.testing.assert_array_equal(back, X)


def test_twins_are_the_same_letter_in_the_other_size(tmp_path):
    letters = [figure.cards(one)[0].tolist() for one in (figure.DEAL, figure.NEIGHBOURS)]
    for row, answer in zip(
        letters, testing.in_node(tmp_path, "multihead", "m.twins(c)", letters), strict=True
    ):
        names = [figure.LETTERS[letter] for letter in row]
        assert [names[place].swapcase() for place in answer] == names
    assert answer[2] == 1  # in the second deal the third card's twin is next door


@pytest.fixture(scope="module")
def models():
    """The models of the page, as they are recorded: trained on another processor, they have
    other numbers.
    """
    numbers = records.load("06-multi-head", 0)["numbers"]
    return {count: figure.rebuilt(count, numbers[count]) for count in (1, 2, 4)}


def test_right_answers_are_what_the_cards_say():
    letters, digits = figure.cards(("aBbAcCdD", "12345123"))
    right = figure.answers(letters, digits) + 1
    assert right[1:, 0].tolist() == [1, 2, 3, 4, 5, 1, 2]
    assert right[:, 1].tolist() == [4, 3, 2, 1, 1, 5, 3, 2]


def test_two_heads_learn_both_answers_and_one_head_does_not(models):
    two, one = models[2], models[1]
    assert min(figure.correct(two)) > 0.99
    assert max(figure.correct(one)) > 0.9 and min(figure.correct(one)) < 0.55
    without = [figure.correct(two, silent=t) for t in (0, 1)]
    assert all(min(share) < 0.5 for share in without)


@pytest.mark.parametrize("counts", [[], [2, 2]])
def test_the_figure_refuses_no_model_and_two_alike(counts):
    with pytest.raises(ValueError, match="no two with the same number"):
        figure.MultiHeadFigure([untrained(count) for count in counts])


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-multihead");
      const text = (node) => node.textContent.replaceAll("\\u2212", "-");
      const rows = [...root.querySelectorAll(".abh-head-row")];
      const questions = [...root.querySelectorAll(".abh-question")];
      return {
        now: JSON.parse(root.dataset.now), step: Number(root.dataset.step), heads: Number(root.dataset.heads),
        cards: [...root.querySelectorAll(".abh-cards label")].map(text),
        marks: [...root.querySelectorAll(".abh-marks > span")].slice(1).map((mark) => [...mark.children].map(text)),
        weights: rows.map((row) => [...row.querySelectorAll(".abh-weight-cell")].map((cell) => Number(text(cell)))),
        silent: rows.map((row) => row.classList.contains("abh-silent")),
        bars: [...root.querySelectorAll(".abh-strip svg")].map((s) => s.querySelectorAll(".abh-number-bar").length),
        parts: questions.map((q) => [...q.querySelectorAll("tbody tr:not(.abh-total)")].map(
          (row) => [...row.querySelectorAll("td")].map((cell) => Number(text(cell))))),
        shares: questions.map((q) => [...q.querySelectorAll(".abh-total td")].map(text)),
        unseen: [".abh-strip-messages", ".abh-strip-mixed", ".abh-questions"].map(
          (name) => getComputedStyle(root.querySelector(name)).visibility === "hidden"),
        record: text(root.querySelector(".abh-record")),
      };
    }""")


def press(page, name):
    page.locator(FIGURE).get_by_role("button", name=TEXT[name], exact=True).click()


def check_shown(course, models, one):
    """Everything on show at the last step follows from the cards, the model and who asks."""
    assert one["step"] == STEPS - 1
    now, model = one["now"], models[one["heads"]]
    expected = in_python(course, as_data(model), now["letters"], now["digits"], now["silent"])
    check_equal(now, expected)
    at = now["chosen"]
    np.testing.assert_allclose(one["weights"], expected["weights"][:, at], atol=0.00501)
    assert one["silent"] == [t in now["silent"] for t in range(one["heads"])]
    assert one["bars"] == [figure.WIDTH, figure.WIDTH]
    parts = expected["parts"][:, at].reshape(one["heads"], 2, figure.DIGITS).transpose(1, 0, 2)
    np.testing.assert_allclose(one["parts"], parts, atol=0.0501)
    assert one["shares"] == [[testing.percent(p) for p in shares] for shares in now["answers"][at]]
    names = [
        figure.LETTERS[x] + str(d + 1) for x, d in zip(now["letters"], now["digits"], strict=True)
    ]
    assert one["cards"] == names
    twin = [name[0] for name in names].index(names[at][0].swapcase())
    assert [i for i, mark in enumerate(one["marks"]) if TEXT["twin"] in mark] == [twin]
    assert [i for i, mark in enumerate(one["marks"]) if TEXT["left"] in mark] == [at - 1][: at > 0]


@pytest.mark.slow
@pytest.mark.browser
def test_each_step_adds_its_part(chapter, course, models):
    for step, words in enumerate(
        ["wants two digits", "adds up the values", "side by side", "reads two digits"]
    ):
        testing.says(chapter, words)
        assert shown(chapter)["unseen"] == [step < 1, step < 3, step < 3]
        if step < STEPS - 1:
            chapter.locator(FIGURE).get_by_role("button", name="Next", exact=True).click()
    check_shown(course, models, shown(chapter))
    assert chapter.locator(FIGURE).get_by_role("button", name="Next", exact=True).is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_every_card_can_ask(chapter, course, models):
    chapter.locator(FIGURE).get_by_role("radio", name="4 Mix").check()
    for place, name in enumerate(shown(chapter)["cards"]):
        chapter.locator(FIGURE).get_by_role("radio", name=name, exact=True).check()
        check_shown(course, models, shown(chapter))
        assert shown(chapter)["now"]["chosen"] == place
        if place == 0:
            testing.says(chapter, TEXT["unasked"])


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course, models):
    for name, heads, silent in [
        ("try_one", 1, []),
        ("try_four", 4, []),
        ("try_two", 2, []),
        ("try_silence", 2, [0]),
        ("try_two", 2, []),
    ]:
        press(chapter, name)
        one = shown(chapter)
        assert (one["heads"], one["now"]["silent"]) == (heads, silent)
        check_shown(course, models, one)
        shares = figure.correct(models[heads], silent=silent[0] if silent else None)
        for share in shares:
            assert testing.percent(share) in one["record"]
    press(chapter, "try_neighbours")
    one = shown(chapter)
    check_shown(course, models, one)
    assert [TEXT["left"], TEXT["twin"]] in one["marks"]
    cards = one["cards"]
    press(chapter, "try_deal")
    check_shown(course, models, shown(chapter))
    assert shown(chapter)["cards"] != cards  # one chance in 10^10 that they are the same


@pytest.mark.slow
@pytest.mark.browser
def test_keys_move_the_choice(chapter):
    chapter.locator(FIGURE).get_by_role(
        "radio", name=shown(chapter)["cards"][4], exact=True
    ).focus()
    chapter.keyboard.press("ArrowRight")
    assert shown(chapter)["now"]["chosen"] == 5
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page

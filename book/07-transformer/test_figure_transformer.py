"""The figure of chapter 07 computes what the chapter's own Python computes, under node and in
the browser.
"""

import re

import numpy as np
import pytest
import records
import torch
from figures import testing
from figures import transformer as figure

PAGE = "07-transformer"
FIGURE = ".abh-transformer"
TEXT = figure.TEXT
SHOWN = 0.1  # the least weight whose number is written
GRAMMAR = re.compile(
    r"(?:t(?:n(?:h(?:vt[nN]|tnv|tNV))?v|N(?:h(?:Vt[nN]|tnv|tNV))?V)t(?:n(?:h(?:vt[nN]|tnv|tNV))?|N(?:h(?:Vt[nN]|tnv|tNV))?)\.)*"
)


def untrained(course, num_layers=2, num_heads=2, seed=0):
    """A model with random numbers, larger than at first: what it computes must agree as well."""
    torch.manual_seed(seed)
    model = course["TinyGPT"](
        **course["SIZES"] | {"num_heads": num_heads, "num_layers": num_layers}
    ).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.requires_grad_(False)


def as_data(model):
    """A model as the figure has it."""
    numbers = {name: parameter.tolist() for name, parameter in model.named_parameters()}
    sizes = {
        "num_heads": model.blocks[0].num_heads,
        "num_layers": len(model.blocks),
        "max_len": model.max_len,
    }
    return sizes | {"numbers": numbers}


def in_python(course, model, tokens):
    """Everything that the figure shows of the last token; the logits are those of the chapter's
    own model.
    """
    words = [course["VOCABULARY"][token] for token in tokens]
    found = {name: value[..., -1, :].numpy() for name, value in figure.inside(model, words).items()}
    return found | {"logits": model(torch.tensor([tokens]))[0, -1].numpy()}


def check_equal(answer, expected):
    for name, value in expected.items():
        assert np.shape(answer[name]) == value.shape, name
        np.testing.assert_allclose(answer[name], value, rtol=1e-8, atol=1e-10, err_msg=name)


def test_the_model_equals_the_chapters(course, tmp_path):
    models = [untrained(course, layers, heads) for layers, heads in ((1, 1), (2, 2), (3, 8))]
    rng = np.random.default_rng(7)
    cases = [(model, rng.integers(15, size=n).tolist()) for model in models for n in (1, 2, 7, 16)]
    answers = testing.in_node(
        tmp_path, "transformer", "m.forward(c.tokens, c.model)",
        [{"model": as_data(model), "tokens": tokens} for model, tokens in cases],
    )  # fmt: skip
    assert len(answers) == 12
    for (model, tokens), answer in zip(cases, answers, strict=True):
        check_equal(answer, in_python(course, model, tokens))
        read = torch.tensor(answer["logits"], dtype=torch.float64).softmax(-1)
        np.testing.assert_allclose(answer["reads"][-1], read, atol=1e-10)


def test_temperature_and_drawing(tmp_path):
    logits = [1.0, 3.0, -2.0, 3.0]
    answers = testing.in_node(tmp_path, "transformer", f"m.temper({logits}, c)", [0, 0.5, 1, 3])
    assert answers[0] == [0, 0.5, 0, 0.5]
    for temperature, answer in zip((0.5, 1, 3), answers[1:], strict=True):
        np.testing.assert_allclose(
            answer, torch.softmax(torch.tensor(logits) / temperature, -1), atol=1e-7
        )
    drawn = testing.in_node(
        tmp_path, "transformer", "m.draw([0.25, 0, 0.75, 0], c)", [0, 0.2499, 0.25, 0.9, 1]
    )
    assert drawn == [0, 0, 2, 2, 2]


@pytest.mark.slow
def test_the_text_is_of_the_grammar_and_the_grammar_knows_what_comes_next(course, tmp_path):
    """`after` and the generator are two writings of one grammar; a regular expression is the
    third.
    """
    words = [course["VOCABULARY"][token] for token in course["text_of"](3, 3000)]
    kind = {".": ".", "the": "t", "that": "h"}
    for pairs, letters in ((course["NOUNS"], "nN"), (course["VERBS"], "vV")):
        kind |= {word: letter for pair in pairs for word, letter in zip(pair, letters, strict=True)}
    assert GRAMMAR.fullmatch("".join(kind[word] for word in words))
    counts = {}
    begin = 0
    for at, word in enumerate(words):
        options = figure.after(words[begin:at])
        assert sum(options.values()) == pytest.approx(1) and options[word] > 0
        state = tuple(sorted(options.items()))
        counts.setdefault(state, []).append(word)
        if word == ".":
            begin = at + 1
    for state, found in counts.items():  # the probabilities are those of the text
        for word, p in state:
            assert found.count(word) / len(found) == pytest.approx(
                p, abs=6 * (p * (1 - p) / len(found)) ** 0.5 + 1e-9
            )
    cases = [words[:n] for n in range(60)] + [["the", "cat", "chase"], ["that"], ["the", "the"]]
    text = {
        "nouns": [list(pair) for pair in course["NOUNS"]],
        "verbs": [list(pair) for pair in course["VERBS"]],
    }
    answers = testing.in_node(
        tmp_path,
        "transformer",
        "m.after(c.words, c.nouns, c.verbs)",
        [text | {"words": case} for case in cases],
    )
    for case, answer in zip(cases, answers, strict=True):
        assert answer == pytest.approx(figure.after(case))
    assert answers[-3:] == [{}, {}, {}]


def test_the_verbs_that_are_far_from_their_nouns():
    far = figure.far_verbs()
    assert len(far) == 108
    for words, n in far:
        assert set(figure.after(words[1:])) == {pair[n] for pair in figure.chapter()["VERBS"]}


@pytest.mark.slow
def test_the_trained_model_keeps_subject_and_verb_together(trained):
    assert figure.agreement(trained) > 0.9
    assert figure.agreement(figure.train(1)) < 0.9


def test_the_figure_refuses_words_that_the_model_does_not_know():
    with pytest.raises(ValueError, match="not in the vocabulary: bird"):
        figure.TransformerFigure(figure.train(0), words=". the bird")


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-transformer");
      const text = (node) => node.textContent.replaceAll("\\u2212", "-");
      const hidden = (node) => getComputedStyle(node).visibility === "hidden";
      return {
        now: JSON.parse(root.dataset.now), step: root.dataset.step,
        words: [...root.querySelectorAll(".abh-sentence span:not(.abh-quiet)")].map(text),
        gone: root.querySelectorAll(".abh-gone").length,
        heads: [...root.querySelectorAll(".abh-head-row")].map((row) => [...row.querySelectorAll(".abh-weight-word")]
          .map((cell) => [cell.firstChild.textContent, cell.children[0] ? Number(text(cell.children[0])) : null])),
        reads: [...root.querySelectorAll(".abh-read")].map(text),
        bars: [...root.querySelectorAll(".abh-part svg")].map((s) => s.querySelectorAll("rect").length),
        chances: [...root.querySelectorAll(".abh-chances li")].map((item) => [
          item.querySelector(".abh-chance-word").firstChild.textContent, text(item.querySelector(".abh-share")),
          item.classList.contains("abh-fits")]),
        unseen: [".abh-head-row.abh-of-layer-1", ".abh-head-row.abh-of-layer-2", ".abh-outcome"].map(
          (name) => hidden(root.querySelector(name))),
        temperature: Number(text(root.querySelector(".abh-slider output"))),
      };
    }""")


def test_what_may_be_expected_of_a_window_is_the_grammar_once_a_full_stop_was_seen(course):
    vocabulary, text = course["VOCABULARY"], course["text_of"](5, 60)
    for start in range(0, 200, 7):
        window = text[start : start + 17]
        words, (chances,) = [vocabulary[word] for word in window], figure.expected(window[None])
        assert ((chances > 0) & (chances <= 1)).all()
        begins = words.index(".") if "." in words else 16
        for at in range(begins, 16):
            assert chances[at].item() == pytest.approx(
                figure.after(words[begins + 1 : at + 1])[words[at + 1]]
            )


@pytest.fixture(scope="module")
def trained():
    """The model of the page's figure, as it is recorded."""
    numbers, _learned = (cell["values"] for cell in records.read("07-transformer")["cells"])
    return figure.rebuilt(records.decoded(numbers["numbers"]))


def press(page, name):
    page.locator(FIGURE).get_by_role("button", name=TEXT.get(name, name), exact=True).click()


def check_shown(course, model, one):
    """Everything on show follows from the text, the model and the temperature."""
    now, vocabulary = one["now"], course["VOCABULARY"]
    seen = now["tokens"][-model.max_len :]
    expected = in_python(course, model, seen)
    for name in ("weights", "parts", "reads", "logits"):
        np.testing.assert_allclose(now[name], expected[name], atol=1e-9, err_msg=name)
    words = [vocabulary[token] for token in seen]
    flat = expected["weights"].reshape(-1, len(seen))
    assert len(one["heads"]) == len(flat)
    for row, weights in zip(one["heads"], flat, strict=True):
        assert [word for word, _ in row] == words
        for (_, number), weight in zip(row, weights, strict=True):
            assert (
                number is None if weight < SHOWN else number == pytest.approx(weight, abs=0.00501)
            )
    assert one["bars"] == [32] * 5
    for read, p in zip(one["reads"], expected["reads"], strict=True):
        assert read == f"{vocabulary[p.argmax()]} {testing.percent(p.max())}"
    y = torch.tensor(expected["logits"])
    heat = now["temperature"]
    chances = (
        (y / heat).softmax(-1) if heat else torch.nn.functional.one_hot(y.argmax(), len(y)).double()
    )
    np.testing.assert_allclose(now["chances"], chances, atol=1e-9)
    fits = figure.after([vocabulary[token] for token in now["tokens"][1:]])
    order = chances.argsort(descending=True, stable=True).tolist()[:8]
    if heat:
        assert one["chances"] == [
            [vocabulary[w], testing.percent(chances[w].item()), vocabulary[w] in fits]
            for w in order
        ]
    assert one["temperature"] == pytest.approx(heat)
    assert one["gone"] == max(0, min(20, len(now["tokens"])) - model.max_len)


@pytest.mark.slow
@pytest.mark.browser
def test_each_step_adds_its_part(chapter, course, trained):
    for step, words in enumerate(["becomes 32 numbers", "looks back", "looks back", "expects"]):
        testing.says(chapter, words)
        assert shown(chapter)["unseen"] == [step < 1, step < 2, step < 3]
        if step < 3:
            press(chapter, "next")
    one = shown(chapter)
    assert one["words"] == figure.FAR.split()
    check_shown(course, trained, one)
    before = one["now"]["tokens"]
    press(chapter, "next_word")
    after = shown(chapter)
    assert after["step"] == "0"
    assert after["now"]["tokens"][:-1] == before
    assert one["now"]["chances"][after["now"]["tokens"][-1]] > 0


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course, trained):
    for name, words, n in (("try_far", figure.FAR, 1), ("try_other", figure.OTHER, 0)):
        press(chapter, name)
        one = shown(chapter)
        check_shown(course, trained, one)
        assert one["words"] == words.split()
        assert one["chances"][0][0] in {pair[n] for pair in course["VERBS"]}
    texts = []
    for _ in range(2):
        press(chapter, "try_cold")
        check_shown(course, trained, shown(chapter))
        texts.append(shown(chapter)["words"])
    assert texts[0] == texts[1]
    assert " ".join(texts[0]) == course["write"](trained, ".", len(texts[0]) - 1)
    for _ in range(3):
        press(chapter, "try_write")
        check_shown(course, trained, shown(chapter))
    press(chapter, "try_hot")
    check_shown(course, trained, shown(chapter))
    assert shown(chapter)["temperature"] == 3


@pytest.mark.slow
@pytest.mark.browser
def test_the_temperature_moves_the_chances(chapter, course, trained):
    press(chapter, "try_far")
    slider = chapter.locator(f"{FIGURE} .abh-slider input")
    tops = []
    for value in ("0.2", "1", "2.5"):
        slider.fill(value)
        check_shown(course, trained, shown(chapter))
        tops.append(max(shown(chapter)["now"]["chances"]))
    assert tops == sorted(tops, reverse=True)
    slider.focus()
    chapter.keyboard.press("ArrowRight")
    assert shown(chapter)["temperature"] == pytest.approx(2.6)
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrow turned no page

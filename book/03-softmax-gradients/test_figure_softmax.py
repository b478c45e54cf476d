"""The figure of chapter 03 computes what the chapter's own Python computes, under node and in
the browser.
"""

import numpy as np
import pytest
from figures import softmax as figure
from figures import testing

PAGE = "03-softmax-gradients"
FIGURE = ".abh-softmax"
OWN, GRADES, TEXT = figure.SCORES, figure.GRADES, figure.TEXT
STEPS = len(TEXT["step_names"])


def in_python(course, scores, da):
    """Everything the figure shows, by the chapter's functions."""
    scores, da = np.array(scores, dtype=float), np.array(da, dtype=float)
    a, n = course["softmax"](scores), len(scores)
    return {
        "weights": a,
        "jacobian": np.array([[course["slope"](a, j, m) for m in range(n)] for j in range(n)]),
        "average": a @ da,
        "above": da - a @ da,
        "ds": course["pull_back"](a, da),
    }


def random_cases(number=200):
    rng = np.random.default_rng(20261121)
    cases = []
    for _ in range(number):
        n = rng.integers(1, 9)
        scale = 10 ** rng.uniform(-3, 4)  # up to gaps at which weights underflow
        grades = 10 ** rng.uniform(-3, 3) * rng.normal(size=n)
        cases.append({"scores": (scale * rng.normal(size=n)).tolist(), "da": grades.tolist()})
    cases += [
        {"scores": OWN.tolist(), "da": GRADES.tolist()},
        {"scores": [0.0] * 5, "da": [1.0] * 5},
        {"scores": [1e308, -1e308, 0.0], "da": [1.0, -2.0, 3.0]},
        {"scores": [700.0, 700.0, -700.0], "da": [1.0, -2.0, 3.0]},
        {"scores": [5.0], "da": [2.0]},
    ]
    return cases


@pytest.mark.filterwarnings("ignore:overflow")
def test_row_equals_the_chapter(course, tmp_path):
    cases = random_cases()
    answers = testing.in_node(tmp_path, "softmax", "m.row(c.scores, c.da)", cases)
    assert len(answers) == len(cases) > 200
    for case, answer in zip(cases, answers, strict=True):
        largest = max(map(abs, case["da"]))
        for name, value in in_python(course, **case).items():
            assert np.shape(answer[name]) == np.shape(value)
            scale = largest if name in ("average", "above", "ds") else 1
            np.testing.assert_allclose(
                answer[name], value, rtol=1e-9, atol=1e-12 * scale, err_msg=name
            )


def test_small_gradients_keep_their_digits(course, tmp_path):
    """Where the weights are nearly one-hot the figure still shows the right power of ten, for
    the sure word too.
    """
    gaps = (5.0, 20.0, 36.0, 100.0, 700.0)
    cases = [{"scores": [g, 0.0], "da": [0.0, 1.0]} for g in gaps]
    for gap, case, answer in zip(
        gaps,
        cases,
        testing.in_node(tmp_path, "softmax", "m.row(c.scores, c.da)", cases),
        strict=True,
    ):
        np.testing.assert_allclose(answer["ds"][1], in_python(course, **case)["ds"][1], rtol=1e-9)
        slope = np.exp(-gap) / (1 + np.exp(-gap)) ** 2
        np.testing.assert_allclose(answer["ds"], [-slope, slope], rtol=1e-9)


def test_grades_that_are_alike_give_exactly_nothing(tmp_path):
    cases = [{"scores": [0.3, -1.7, 2.2], "da": [0.1] * 3}, {"scores": [0.1] * 7, "da": [3.3] * 7}]
    for answer in testing.in_node(tmp_path, "softmax", "m.row(c.scores, c.da)", cases):
        assert not any(answer["ds"]) and not any(answer["above"])


def test_learning_is_gradient_descent(course, tmp_path):
    cases = [
        {"scores": OWN.tolist(), "da": GRADES.tolist(), "steps": steps} for steps in (0, 1, 10)
    ]
    answers = testing.in_node(tmp_path, "softmax", "m.learn(c.scores, c.da, c.steps)", cases)
    for case, answer in zip(cases, answers, strict=True):
        scores = OWN
        for _ in range(case["steps"]):
            scores = scores - course["pull_back"](course["softmax"](scores), GRADES)
        np.testing.assert_allclose(answer, scores, rtol=1e-9)


def test_numbers_are_written_as_they_are(tmp_path):
    written = {
        0.5: "0.5",
        0.1875: "0.1875",
        -0.0625: "\u22120.0625",
        10.0: "10",
        100: "100",
        0.0: "0",
        0.99999: "1",
        2.4e-5: "2·10⁻⁵",
        -9.7e-7: "\u22121·10⁻⁶",
        3e-310: "3·10⁻³¹⁰",
    }
    answers = testing.in_node(tmp_path, "softmax", "m.written(c)", list(written))
    assert answers == list(written.values())


@pytest.mark.parametrize("change", [{"scores": [1, 2]}, {"grades": [1, 2, 3, 4]}])
def test_the_figure_refuses_sizes_that_do_not_fit(change):
    with pytest.raises(ValueError, match="3 tokens"):
        figure.SoftmaxFigure(figure.WORDS, **{"scores": OWN, "grades": GRADES} | change)


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-softmax");
      const rows = [...root.querySelectorAll("tbody tr")];
      const part = (node) => (node.nodeName === "SUP" ? "^" : "") + node.textContent;
      const text = (node) => [...node.childNodes].map(part).join("").replaceAll("\\u2212", "-");
      const cells = (name) => rows.flatMap((r) => [...r.querySelectorAll(`.abh-c-${name}:not(.abh-both)`)].map(text));
      return {
        ...JSON.parse(root.dataset.row), step: Number(root.dataset.step),
        sliders: [...root.querySelectorAll("input[type=range]")].map((input) => Number(input.value)),
        texts: Object.fromEntries(["weight", "slope", "grade", "above", "gradient"].map((c) => [c, cells(c)])),
        weight_bars: [...root.querySelectorAll(".abh-track .abh-bar")].map((bar) => parseFloat(bar.style.width)),
        bars: rows.map((r) => parseFloat(r.querySelector(".abh-both .abh-bar").style.width)),
        rises: rows.map((r) => r.querySelector(".abh-both .abh-bar").classList.contains("abh-rise")),
        discs: [...root.querySelectorAll(".abh-disc")].map((c) => [c.cx.baseVal.value, c.r.baseVal.value]),
        support: root.querySelector(".abh-support")?.points[0].x,
      };
    }""")


def number(text):
    """The number that is written: 0.25, or 2·10^-5."""
    lead, _, power = text.partition("·10^")
    return float(lead) * 10.0 ** float(power or 0)


def check_shown(course, now, scores, da=GRADES):
    """Everything on show at the last step follows from the scores and the grades."""
    assert now["step"] == STEPS - 1
    np.testing.assert_allclose(now["scores"], scores, rtol=1e-9)
    np.testing.assert_allclose(now["da"], da)
    expected = in_python(course, now["scores"], now["da"])
    for name, value in expected.items():
        np.testing.assert_allclose(now[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
    columns = {"weight": "weights", "slope": "jacobian", "above": "above", "gradient": "ds"}
    for column, name in columns.items():
        written = [number(text) for text in now["texts"][column]]
        tiny = ["·" in text for text in now["texts"][column]]
        value = np.ravel(expected[name])
        np.testing.assert_allclose(written, value, atol=0.0000501, err_msg=column)
        np.testing.assert_allclose(np.array(written)[tiny], value[tiny], rtol=0.51, err_msg=column)
    assert [number(text) for text in now["texts"]["grade"]] == list(da)
    np.testing.assert_allclose(now["weight_bars"], 100 * expected["weights"], atol=0.01)
    # the grades span 4: full at 1
    np.testing.assert_allclose(now["bars"], 50 * abs(expected["ds"]), atol=0.01)
    assert now["rises"] == list(expected["ds"] > 0)
    # The beam: discs as large as the weights, and a support where they balance.
    places, sizes = np.transpose(now["discs"])
    np.testing.assert_allclose(sizes, np.maximum(2, 24 * np.sqrt(expected["weights"])), rtol=1e-6)
    np.testing.assert_allclose(expected["weights"] @ places, now["support"], atol=0.01)


def last_step(page):
    page.locator(FIGURE).get_by_role("radio", name="5 Gradient").check()


@pytest.mark.slow
@pytest.mark.browser
def test_each_step_fills_its_column_and_says_what_it_does(chapter, course):
    columns = ["weight", "slope", "grade", "above", "gradient"]
    words = [
        "cat 0.5, chased 0.25",
        "cat 0.525, chased 0.2375",
        "cat 4, chased 0",
        "= 2.5",
        "cat 0.5·1.5 = 0.75",
    ]
    for step, sentence in enumerate(words):
        testing.says(chapter, sentence)
        texts = shown(chapter)["texts"]
        assert [texts[name][0] != "" for name in columns] == [
            number <= step for number in range(STEPS)
        ]
        if step < STEPS - 1:
            chapter.locator(FIGURE).get_by_role("button", name="Next").click()
    check_shown(course, shown(chapter), OWN)
    assert shown(chapter)["texts"]["slope"][4] == "0.1875"  # as in the chapter, unrounded
    assert chapter.locator(FIGURE).get_by_role("button", name="Next").is_disabled()
    chapter.locator(FIGURE).get_by_role("button", name="Back").click()
    testing.says(chapter, "balances at the average")


@pytest.mark.slow
@pytest.mark.browser
def test_another_word_can_be_nudged(chapter, course):
    chapter.locator(FIGURE).get_by_role("radio", name="2 Slopes").check()
    chapter.locator(FIGURE).get_by_role("radio", name="mouse", exact=True).check()
    moved = course["softmax"](np.add(OWN, [0, 0, 0.1]))
    testing.says(chapter, f"mouse {moved[2]:.4f}".rstrip("0"))
    chapter.locator(FIGURE).get_by_role("radio", name="cat", exact=True).check()


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, course):
    level = np.array([OWN[0], 0, OWN[0]])
    for name, scores, da, sentence in [
        ("try_long", 10 * OWN, GRADES, "hardly learns"),
        (
            "try_two",
            10 * level,
            GRADES,
            "Learning lowers the score of “cat” and raises that of “chased” and “mouse”",
        ),
        ("try_shift", OWN + 3, GRADES, "cat 0.5·1.5 = 0.75"),
        ("try_alike", OWN, [1, 1, 1], "nothing moves"),
    ]:
        chapter.locator(FIGURE).get_by_role("button", name=TEXT[name]).click()
        now = shown(chapter)
        check_shown(course, now, scores, da)
        testing.says(chapter, sentence)
    assert now["texts"]["gradient"] == ["0", "0", "0"]
    chapter.locator(FIGURE).get_by_role("button", name=TEXT["reset"]).click()
    check_shown(course, shown(chapter), OWN)
    assert chapter.locator(FIGURE).get_by_role("button", name=TEXT["reset"]).is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_level_scores_are_called_level(chapter):
    chapter.locator(FIGURE).get_by_role("slider", name="Score of cat").fill("0")
    testing.says(chapter, "All are equal")
    chapter.locator(FIGURE).get_by_role("slider", name="Score of chased").fill("-3")
    testing.says(chapter, "“cat” and “mouse” share the lead")


@pytest.mark.slow
@pytest.mark.browser
def test_a_sure_row_learns_nothing_and_another_does(chapter, course):
    root = chapter.locator(FIGURE)
    root.get_by_role("button", name="1 step").click()
    check_shown(course, shown(chapter), OWN - [0.75, -0.625, -0.125])
    root.get_by_role("button", name="10 steps").click()
    assert shown(chapter)["average"] < 0.2
    root.get_by_role("button", name=TEXT["try_long"]).click()
    before = shown(chapter)
    root.get_by_role("button", name="10 steps").click()
    after = shown(chapter)
    assert (
        abs(np.subtract(after["weights"], before["weights"])).max() < 0.001
        and after["scores"] != before["scores"]
    )


@pytest.mark.slow
@pytest.mark.browser
def test_keys_move_every_control(chapter, course):
    last_step(chapter)
    chapter.locator(FIGURE).get_by_role("slider", name="Score of chased").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        chapter.keyboard.press(key)
    check_shown(course, shown(chapter), np.add(OWN, [0, 0.1, 0]))
    chapter.locator(FIGURE).get_by_role("radio", name="5 Gradient").focus()
    chapter.keyboard.press("ArrowLeft")
    assert shown(chapter)["step"] == STEPS - 2
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page


@pytest.mark.slow
@pytest.mark.browser
def test_a_pointer_drags_a_score(chapter, course):
    last_step(chapter)
    box = chapter.locator(FIGURE).get_by_role("slider", name="Score of mouse").bounding_box()
    middle = box["y"] + box["height"] / 2
    chapter.mouse.move(box["x"] + 0.5 * box["width"], middle)
    chapter.mouse.down()
    chapter.mouse.move(box["x"] + 0.75 * box["width"], middle, steps=4)
    chapter.mouse.up()
    now = shown(chapter)
    assert 3.5 <= now["scores"][2] <= 6.5
    check_shown(course, now, [*OWN[:2], now["sliders"][2]])

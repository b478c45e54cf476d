"""The figure of chapter 03 computes what the chapter's own Python computes, under node and in the browser."""

import figure_tools
import numpy as np
import pytest
from figures import softmax as figure

PAGE = "/book/03-softmax-gradients.html"
FIGURE = ".abh-softmax"


@pytest.fixture(scope="module")
def course():
    """The functions of the chapter, taken from the page itself."""
    return figure_tools.of_chapter("03-softmax-gradients")


def in_python(course, logits, scale, da):
    """Everything the figure shows, by the chapter's functions."""
    a, n = course["softmax"](scale * np.array(logits)), len(logits)
    jacobian = np.array([[course["slope"](a, j, m) for m in range(n)] for j in range(n)])
    return {
        "weights": a,
        "jacobian": jacobian,
        "size": np.linalg.norm(jacobian),
        "average": a @ np.array(da),
        "ds": course["pull_back"](a, np.array(da)),
    }


def random_cases(number=200):
    rng = np.random.default_rng(20261121)
    cases = []
    for _ in range(number):
        n = rng.integers(1, 9)
        cases.append(
            {
                "logits": rng.normal(size=n).tolist(),
                "scale": 10 ** rng.uniform(-3, 4),  # up to gaps at which weights underflow
                "da": (10 ** rng.uniform(-3, 3) * rng.normal(size=n)).tolist(),
            }
        )
    cases += [
        {"logits": [0.0] * 5, "scale": 3.0, "da": [1.0] * 5},
        {"logits": [1e308, -1e308, 0.0], "scale": 1.0, "da": [1.0, -2.0, 3.0]},
        {"logits": [700.0, 700.0, -700.0], "scale": 1.0, "da": [1.0, -2.0, 3.0]},
        {"logits": [2.0, 1.0, 0.0], "scale": 0.0, "da": [0.0, 0.0, 0.0]},
        {"logits": [5.0], "scale": 40.0, "da": [2.0]},
    ]
    return cases


@pytest.mark.filterwarnings("ignore:overflow")
def test_row_equals_the_chapter(course, tmp_path):
    cases = random_cases()
    answers = figure_tools.in_node(tmp_path, "softmax", "m.row(c.logits, c.scale, c.da)", cases)
    assert len(answers) == len(cases) > 200
    for case, answer in zip(cases, answers, strict=True):
        expected = in_python(course, **case)
        largest = max(map(abs, case["da"])) or 1
        for name, value in expected.items():
            assert np.shape(answer[name]) == np.shape(value)
            scale = largest if name in ("average", "ds") else 1
            np.testing.assert_allclose(answer[name], value, rtol=1e-9, atol=1e-12 * scale, err_msg=name)


def test_small_gradients_keep_their_digits(course, tmp_path):
    """Where the weights are nearly one-hot the figure still shows the right power of ten."""
    cases = [{"logits": [g, 0.0], "scale": 1.0, "da": [0.0, 1.0]} for g in (5.0, 20.0, 36.0, 100.0, 700.0)]
    for case, answer in zip(
        cases, figure_tools.in_node(tmp_path, "softmax", "m.row(c.logits, c.scale, c.da)", cases), strict=True
    ):
        expected = in_python(course, **case)
        assert answer["ds"][1] > 0
        np.testing.assert_allclose(answer["ds"][1], expected["ds"][1], rtol=1e-9)
        np.testing.assert_allclose(answer["jacobian"], expected["jacobian"], rtol=1e-9)


def test_numbers_are_written_as_they_are(tmp_path):
    written = {
        0.4321: "0.432",
        0.0: "0.000",
        -1.5: "\u22121.500",
        0.0005: "0.001",
        2.4e-5: "2·10⁻⁵",
        -9.7e-7: "\u22121·10⁻⁶",
        3e-310: "3·10⁻³¹⁰",
    }
    answers = figure_tools.in_node(tmp_path, "softmax", "m.small(c)", list(written))
    assert answers == list(written.values())


def test_the_figure_refuses_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="2 tokens"):
        figure.SoftmaxFigure(["a", "b"], [1, 2, 3], [("x", [1, 2])])
    with pytest.raises(ValueError, match="2 tokens"):
        figure.SoftmaxFigure(["a", "b"], [1, 2], [("x", [1, 2, 3])])


# ---- in the browser --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-softmax");
      const number = (text) => Number(text.replace("\\u2212", "-"));
      const lines = [...root.querySelectorAll(".abh-logit[data-weight]")];
      const rows = [...root.querySelectorAll("tbody tr")];
      const squares = [...root.querySelectorAll("rect")];
      return {
        scale: Number(root.querySelector(".abh-times input").value),
        logits: lines.map((l) => Number(l.querySelector("input").value)),
        weights: lines.map((l) => Number(l.dataset.weight)),
        weight_text: lines.map((l) => number(l.querySelector(".abh-weight").textContent)),
        bars: lines.map((l) => parseFloat(l.querySelector(".abh-bar").style.width)),
        jacobian: JSON.parse(root.dataset.jacobian), size: Number(root.dataset.size),
        slope_text: [...root.querySelectorAll(".abh-slope")].map((t) => number(t.textContent)),
        sides: squares.map((r) => Number(r.getAttribute("width"))),
        filled: squares.map((r) => r.classList.contains("abh-gain")),
        average: Number(root.dataset.average), ds: rows.map((r) => Number(r.dataset.gradient)),
        da: rows.map((r) => number(r.children[1].textContent)),
        sides_of_ds: rows.map((r) => r.querySelector(".abh-bar").classList.contains("abh-rise")),
        mark: Number(root.querySelector(".abh-here").getAttribute("cy")),
      };
    }""")


def check_shown(course, now):
    """Everything on show follows from the logits, the multiplier and the gradient that comes back."""
    expected = in_python(course, now["logits"], now["scale"], now["da"])
    for name, value in expected.items():
        np.testing.assert_allclose(now[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(now["weight_text"], expected["weights"], atol=0.00501)
    np.testing.assert_allclose(now["bars"], 100 * expected["weights"], atol=0.01)
    slopes = expected["jacobian"].ravel()
    np.testing.assert_allclose(now["slope_text"], slopes, atol=0.00501)
    np.testing.assert_allclose(now["sides"], 27 * np.sqrt(abs(slopes) / 0.25), atol=1e-6)
    assert now["filled"] == list(slopes > 0)
    assert now["sides_of_ds"] == list(expected["ds"] > 0)


@pytest.fixture(scope="module")
def opened(browser, site):
    """The chapter, opened once: it is a long page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(site + PAGE)
    page.locator(f"{FIGURE} .abh-times input").wait_for(timeout=30_000)
    yield page
    context.close()


@pytest.fixture
def chapter(opened):
    """The chapter with its figure as at first."""
    reset = opened.locator(f"{FIGURE} .abh-reset")
    if reset.is_enabled():
        reset.click()
    opened.locator(f"{FIGURE} input[type=radio]").first.check()
    opened.locator(f"{FIGURE} .abh-times").scroll_into_view_if_needed()
    return opened


@pytest.mark.slow
@pytest.mark.browser
def test_it_starts_alive(chapter, course):
    now = shown(chapter)
    assert now["scale"] == 1 and now["size"] > 0.3 and len(now["logits"]) == 5
    check_shown(course, now)
    chapter.locator(f"{FIGURE} .abh-summary", has_text="cat").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_the_multiplier_puts_the_jacobian_out(chapter, course):
    before = shown(chapter)
    chapter.locator(f"{FIGURE} .abh-times input").fill("30")
    now = shown(chapter)
    check_shown(course, now)
    assert now["scale"] == 30 and now["da"] == before["da"]
    assert now["size"] < before["size"] / 100 and now["mark"] > before["mark"]
    assert max(map(abs, now["ds"])) < max(map(abs, before["ds"])) / 100
    chapter.locator(f"{FIGURE} .abh-summary", has_text="times smaller").wait_for(timeout=3000)
    chapter.locator(f"{FIGURE} .abh-reset").click()
    assert shown(chapter) == before
    assert chapter.locator(f"{FIGURE} .abh-reset").is_disabled()


@pytest.mark.slow
@pytest.mark.browser
def test_level_logits_share_the_weight_at_any_multiplier(chapter, course):
    chapter.locator(f"{FIGURE} .abh-times input").fill("40")
    chapter.get_by_role("slider", name="Logit of mouse").fill("1.4")
    now = shown(chapter)
    check_shown(course, now)
    np.testing.assert_allclose(now["size"], 0.5, atol=1e-6)
    chapter.locator(f"{FIGURE} .abh-times input").fill("0")
    now = shown(chapter)
    check_shown(course, now)
    np.testing.assert_allclose(now["weights"], 0.2)


@pytest.mark.slow
@pytest.mark.browser
def test_every_gradient_can_come_back(chapter, course):
    for i in range(3):
        chapter.locator(f"{FIGURE} input[type=radio]").nth(i).check()
        check_shown(course, shown(chapter))
    assert shown(chapter)["da"] == [1] * 5
    np.testing.assert_allclose(shown(chapter)["ds"], 0, atol=1e-12)
    chapter.locator(f"{FIGURE} .abh-summary", has_text="No logit").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_keys_move_every_control(chapter, course):
    before = shown(chapter)
    chapter.locator(f"{FIGURE} .abh-times input").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        chapter.keyboard.press(key)
    chapter.get_by_role("slider", name="Logit of cat").focus()
    chapter.keyboard.press("ArrowLeft")
    chapter.locator(f"{FIGURE} input[type=radio]").first.focus()
    chapter.keyboard.press("ArrowRight")
    now = shown(chapter)
    check_shown(course, now)
    assert now["scale"] == 1.5 and now["logits"][1] == pytest.approx(before["logits"][1] - 0.1)
    assert now["da"] == [0, 0, 0, 0, -1]
    assert chapter.url.endswith(PAGE)  # the arrows turned no page


@pytest.mark.slow
@pytest.mark.browser
def test_a_pointer_drags_the_multiplier(chapter, course):
    box = chapter.locator(f"{FIGURE} .abh-times input").bounding_box()
    middle = box["y"] + box["height"] / 2
    chapter.mouse.move(box["x"] + 0.03 * box["width"], middle)
    chapter.mouse.down()
    chapter.mouse.move(box["x"] + 0.5 * box["width"], middle, steps=4)
    chapter.mouse.up()
    now = shown(chapter)
    assert 18 <= now["scale"] <= 22
    check_shown(course, now)


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(browser, site):
    assert figure_tools.fits_a_phone(browser, site + PAGE, FIGURE)

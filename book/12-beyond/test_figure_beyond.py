"""The figure of chapter 12 computes what the chapter's own Python computes, under node and in
the browser.
"""

import re

import numpy as np
import pytest
import records
import torch
from figures import beyond as figure
from figures import testing

PAGE = "12-beyond"
FIGURE = ".abh-beyond"
TEXT = figure.TEXT


def untrained(course, num_layers=2, num_heads=4, seed=0):
    """A model with random numbers, larger than at first: what it computes must agree as well."""
    torch.manual_seed(seed)
    model = course["ViT"](num_layers=num_layers, num_heads=num_heads).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.requires_grad_(False)


def as_data(model):
    """A model as the figure has it."""
    numbers = {name: parameter.tolist() for name, parameter in model.named_parameters()}
    return {
        "num_heads": model.blocks[0].num_heads,
        "num_layers": len(model.blocks),
        "numbers": numbers,
    }


def check_equal(answer, expected):
    for name, value in expected.items():
        assert np.shape(answer[name]) == tuple(value.shape), name
        np.testing.assert_allclose(answer[name], value.numpy(), rtol=1e-8, atol=1e-10, err_msg=name)


def test_the_model_equals_the_chapters(course, tmp_path):
    models = [untrained(course, layers, heads) for layers, heads in ((1, 1), (2, 4), (3, 32))]
    images = course["pictures"](5, 4)[0].double()
    cases = [
        (model, image, places) for model in models for image in images for places in (True, False)
    ]
    answers = testing.in_node(
        tmp_path, "beyond", "m.forward(m.patches(c.image, 4), c.model, c.places)",
        [{"model": as_data(model), "image": image.tolist(), "places": places} for model, image, places in cases],
    )  # fmt: skip
    for (model, image, places), answer in zip(cases, answers, strict=True):
        before = model.places.clone()
        check_equal(answer, figure.inside(model, image, places))
        assert torch.equal(model.places, before)


def test_patches_are_the_chapters_and_come_together_again(course, tmp_path):
    image = torch.arange(256.0).view(16, 16)
    for p in (1, 2, 4, 16):
        (cut,) = testing.in_node(tmp_path, "beyond", f"m.patches(c, {p})", [image.tolist()])
        assert cut == course["patches"](image[None], p)[0].tolist()
        (back,) = testing.in_node(tmp_path, "beyond", f"m.together(c, {p})", [cut])
        assert back == image.tolist()


def test_patches_of_pictures_that_are_not_square(course):
    image = torch.arange(2 * 4 * 6).view(2, 4, 6)
    assert course["patches"](image, 2).shape == (2, 6, 4)
    assert course["patches"](image, 2)[1, 4].tolist() == [24 + 14, 24 + 15, 24 + 20, 24 + 21]


def test_the_pictures_have_two_shapes_beside_each_other(course):
    """What a picture is said to have on the left is there: drawn again, it covers pixels that
    are set.
    """
    images, left = course["pictures"](4, 50)
    again, same = course["pictures"](4, 50)
    assert torch.equal(images, again) and torch.equal(left, same)
    assert images.shape == (50, 16, 16) and set(images.unique().tolist()) == {0, 1}
    assert set(left.tolist()) == {0, 1, 2, 3}
    for image, kind in zip(images.numpy(), left, strict=True):
        best = 0.0
        for size in (5, 6, 7):
            shape = np.zeros((size, size))
            course["draw"](shape, course["SHAPES"][kind], size, 0, 0)
            for top, x in np.ndindex(17 - size, 7):
                here = image[top : top + size, x : x + size]
                best = max(best, (here == shape).mean())
        assert best > 0.85


def test_going_deeper_has_the_chapters_code_as_it_stands():
    """Its notebook runs by itself, so the code is there twice."""
    page = (records.BOOK / "12-beyond-deeper.md").read_text(encoding="utf8")
    assert records.chapter_code("12-beyond") in page


def test_the_trained_model_names_the_left_shape(course, trained):
    images, left = course["pictures"](6, 500)
    assert course["share_right"](trained, course["patches"](images, 4).double(), left) > 0.93
    assert course["share_right"](figure.train(1), course["patches"](images, 4).double(), left) < 0.5


# ---- in the browser
# --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    """The model of the page, as it is recorded: trained on another processor, it has other
    numbers.
    """
    return figure.rebuilt(records.load("12-beyond", 0)["numbers"])


def shown(page):
    """What the figure shows: exact numbers, and what is written beside them."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-beyond");
      const numbers = (node) => [...node.querySelectorAll(".abh-weight")].map((x) => x.textContent);
      return {
        now: JSON.parse(root.dataset.now),
        dark: [...root.querySelectorAll(".abh-pixel")].map((pixel) => Number(pixel.classList.contains("abh-on"))),
        weights: [...root.querySelectorAll(".abh-head")].map(numbers),
        self: [...root.querySelectorAll(".abh-self")].map((node) => node.textContent),
        shares: [...root.querySelectorAll(".abh-share")].map((node) => node.textContent),
        most: root.querySelector(".abh-most .abh-shape").textContent,
        asking: getComputedStyle(root.querySelector(".abh-asking")).display !== "none",
        label: root.querySelector(".abh-board").getAttribute("aria-label"),
      };
    }""")


def check_shown(model, one):
    """Everything on show follows from the picture, the model and who asks."""
    now = one["now"]
    image = torch.tensor(now["image"])
    expected = figure.inside(model, image, now["places"])
    check_equal(now, expected)
    assert one["dark"] == image.flatten().tolist()
    A = expected["weights"][now["layer"], :, now["from"]].numpy()
    for written, own, row in zip(one["weights"], one["self"], A, strict=True):
        assert own == TEXT["self"].format(weight=f"{row[0]:.2f}")
        for text, a in zip(written, row[1:], strict=True):
            assert abs(float(text) - a) < 0.00501 if a >= 0.1 else text == ""
    left = A[:, 1:].reshape(4, 4, 4)[:, :, :2].sum((1, 2)).mean()
    assert now["left"] == pytest.approx(left)
    assert one["shares"] == [testing.percent(p) for p in expected["chances"].tolist()]
    assert one["most"] == TEXT[f"shape_{figure.chapter()['SHAPES'][expected['chances'].argmax()]}"]
    assert one["asking"] == (now["from"] > 0)


def press(page, name):
    page.locator(FIGURE).get_by_role("button", name=TEXT[name], exact=True).click()


@pytest.mark.slow
@pytest.mark.browser
def test_things_to_try_set_themselves_up(chapter, trained):
    first = shown(chapter)
    check_shown(trained, first)
    testing.says(chapter, f"“ring” is on the left, says the model, {first['shares'][0]} sure.")
    testing.says(chapter, f"{first['now']['left']:.2f} of its weight in layer 1")
    pixels = sorted(first["dark"])
    for name, places in (
        ("try_swap", True),
        ("try_swap", True),
        ("try_forget", False),
        ("try_shuffle", True),
        ("try_alone", True),
        ("try_other", True),
        ("try_other", True),
        ("try_empty", True),
    ):
        before = shown(chapter)
        press(chapter, name)
        one = shown(chapter)
        check_shown(trained, one)
        assert one["now"]["places"] == places
        assert (one["dark"] == before["dark"]) == (name == "try_forget")
        if name in ("try_swap", "try_shuffle"):
            assert sorted(one["dark"]) == pixels
    assert not any(one["dark"])
    press(chapter, "try_forget")
    testing.says(chapter, "No patch knows where it is.")
    press(chapter, "try_swap")
    assert shown(chapter)["most"] == "cross"


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_says_what_its_things_to_try_show(chapter):
    item = chapter.locator("ol > li", has_text="Change places").first.inner_text()
    (first, swapped) = re.search(r"from (\w+) to (\w+)", item).groups()
    assert shown(chapter)["most"] == first
    press(chapter, "try_swap")
    assert shown(chapter)["most"] == swapped


@pytest.mark.slow
@pytest.mark.browser
def test_pixels_are_drawn_with_the_mouse(chapter, trained):
    press(chapter, "try_empty")
    box = chapter.locator(f"{FIGURE} .abh-board svg").bounding_box()

    def at(row, column):
        return box["x"] + box["width"] * (column + 0.6) / 16.2, box["y"] + box["height"] * (
            row + 0.6
        ) / 16.2

    chapter.mouse.move(*at(3, 2))
    chapter.mouse.down()
    for column in (3, 4, 5):
        chapter.mouse.move(*at(3, column))
    chapter.mouse.up()
    chapter.mouse.move(*at(9, 9))  # not pressed: nothing is drawn
    one = shown(chapter)
    assert [place for place, dark in enumerate(one["dark"]) if dark] == [
        3 * 16 + column for column in (2, 3, 4, 5)
    ]
    check_shown(trained, one)
    chapter.mouse.click(*at(3, 4))
    assert [place for place, dark in enumerate(shown(chapter)["dark"]) if dark] == [50, 51, 53]


@pytest.mark.slow
@pytest.mark.browser
def test_pixels_are_drawn_with_keys(chapter, trained):
    before = shown(chapter)["dark"]
    chapter.locator(f"{FIGURE} .abh-board").focus()
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp", "Space"):
        chapter.keyboard.press(key)
    one = shown(chapter)
    place = 3 * 16 + 2
    assert [x for x in range(256) if one["dark"][x] != before[x]] == [place]
    assert "row 4, column 3" in one["label"]
    assert TEXT["on" if one["dark"][place] else "off"] in one["label"]
    chapter.locator(FIGURE).get_by_role("radio", name=TEXT["patch"]).check()
    chapter.locator(FIGURE).get_by_role("radio", name="2", exact=True).check()
    one = shown(chapter)
    assert (one["now"]["from"], one["now"]["layer"]) == (1, 1)
    check_shown(trained, one)
    testing.says(chapter, "The patch in row 1, column 1")
    chapter.locator(f"{FIGURE} .abh-board").focus()
    for _ in range(20):
        chapter.keyboard.press("ArrowRight")
    assert shown(chapter)["now"]["from"] == 4
    assert chapter.url.endswith(f"/{PAGE}.html")  # the arrows turned no page

"""The figure of chapter 14 computes the same as the chapter's own Python, under node and in the
browser.
"""

import numpy as np
import pytest
from figures import serving as figure
from figures import testing

PAGE = "14-serving"
FIGURE = ".abh-serving"


def test_the_numbers_are_the_chapters(course, tmp_path):
    rng = np.random.default_rng(0)
    cases = [rng.normal(size=n).tolist() for n in (1, 2, 3, 10)]
    answers = testing.in_node(tmp_path, "serving", "m.centered(c)", cases)
    for numbers, answer in zip(cases, answers, strict=True):
        np.testing.assert_allclose(answer, course["centered"](numbers), rtol=1e-12, atol=1e-12)


# ---- in the browser
# --------------------------------------------------------------------------------------


def shown(page, kind):
    """The numbers of a row of the table."""
    texts = page.locator(f"{FIGURE} .abh-{kind}").all_text_contents()
    return [float(text.replace("\u2212", "-")) for text in texts]


@pytest.mark.browser
def test_what_is_shown_follows_from_the_numbers(course, chapter):
    assert shown(chapter, "of") == figure.NUMBERS
    for x in (0, 2.5, 12):
        chapter.locator(f"{FIGURE} input").fill(str(x))
        numbers = [*figure.NUMBERS[:-1], x]
        assert shown(chapter, "of") == numbers
        np.testing.assert_allclose(shown(chapter, "less"), course["centered"](numbers), atol=0.005)


@pytest.mark.browser
def test_the_buttons_do_what_they_say(chapter):
    for name, x in (("try_far", 12), ("try_equal", figure.NUMBERS[-2])):
        chapter.locator(FIGURE).get_by_role("button", name=figure.TEXT[name]).click()
        assert shown(chapter, "of") == [*figure.NUMBERS[:-1], x]

"""What holds for every figure: it fits a phone, and its training can be repeated."""

import re

import pytest
import torch

from figures import BOOK, beyond, heads, multihead, testing, transformer


def pages():
    """Yield each page that shows a figure, with the figure's CSS selector."""
    for script in sorted(BOOK.glob("[0-9][0-9]-*/*.js")):
        for page in sorted(BOOK.glob(f"{script.parent.name[:3]}*.md")):
            if re.search(r"^(?:figure\.)?\w+Figure\(", page.read_text(encoding="utf8"), re.M):
                yield page.stem, f".abh-{script.stem.replace('_', '-')}"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("page", "figure"), list(pages()))
def test_fits_a_phone(browser, site, page, figure):
    assert testing.fits_a_phone(browser, f"{site}/book/{page}.html", figure)


@pytest.mark.parametrize(
    "train",
    [
        lambda: multihead.train(2, steps=2),
        lambda: transformer.train(steps=2),
        lambda: heads.train(steps=2),
        lambda: beyond.train(steps=2),
    ],
    ids=["multihead", "transformer", "heads", "beyond"],
)
def test_training_is_repeatable_and_leaves_the_generator_alone(train):
    torch.manual_seed(3)
    generator, dtype = torch.get_rng_state(), torch.get_default_dtype()
    first, second = train(), train()
    assert torch.equal(generator, torch.get_rng_state()) and torch.get_default_dtype() == dtype
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other) and one.dtype == torch.float64

"""What the tests of figures share: the functions of their chapter, and its page in a browser."""

import pytest
from figures import testing


@pytest.fixture(scope="module")
def course(request):
    """The functions of the chapter, taken from the page that the module names: its PAGE."""
    return testing.of_chapter(request.module.PAGE)


@pytest.fixture
def chapter(tab, site, request):
    """The page of the module's figure, loaded again, with the figure in view: the module names
    its PAGE and FIGURE.
    """
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(f"{site}/book/{request.module.PAGE}.html")
    root = tab.locator(request.module.FIGURE)
    root.locator("input, button").first.wait_for(state="attached", timeout=30_000)
    root.evaluate("""async (root) => {  // the theme scrolls gently
      await document.fonts.ready;
      root.scrollIntoView({ block: "center", behavior: "instant" });
    }""")
    return tab

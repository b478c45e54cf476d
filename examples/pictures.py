"""Takes pictures of what `make course` made, for README.md and for the book's pages for
instructors.

README.md has the figure of chapter 1 and a student's feedback, in this folder. The pages have a
student's feedback and the report, in book/_static/pictures/, light and dark: a reader's machine
need not have Chromium.
"""

import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FEEDBACK = ROOT / "_build/sample/feedback/dalia/01-qkv/01-qkv.html"
REPORT = ROOT / "_build/sample/report.html"
PICTURES = ROOT / "book/_static/pictures"
COLOURS = 64  # of a palette: a page of text needs no more


def of_page(browser, path, name, first, last):
    """Write a picture of a page, from the top of one element to the bottom of another, in both
    themes.
    """
    PICTURES.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 900, "height": 1200}, color_scheme=theme, device_scale_factor=1.5
        )
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        page.wait_for_timeout(800)
        top = page.locator(first).first.evaluate(
            "part => part.getBoundingClientRect().top + scrollY"
        )
        bottom = page.locator(last).first.evaluate(
            "part => part.getBoundingClientRect().bottom + scrollY"
        )
        target = PICTURES / f"{name}-{theme}.png"
        above = max(0, top - 20)
        area = {"x": 0, "y": above, "width": 900, "height": bottom + 14 - above}
        page.screenshot(path=target, clip=area, full_page=True)
        with Image.open(target) as picture:
            picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)
        context.close()


def main():
    """Write book.png and feedback.png beside this file."""
    import functools
    import http.server
    import threading

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(ROOT / "_build/html"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1500})
        page.goto(f"http://127.0.0.1:{server.server_port}/book/01-qkv.html")
        page.locator(".abh-qkv").wait_for()
        page.locator(".abh-qkv").get_by_role("radio", name="5 Add").check(force=True)
        page.add_style_tag(
            content=".bd-header, .bd-header-article, #pst-skip-link { display: none !important }"
        )
        page.wait_for_timeout(1500)
        page.locator(".abh-qkv").screenshot(path=ROOT / "examples/book.png")
        page.set_viewport_size({"width": 900, "height": 1500})
        page.goto(FEEDBACK.as_uri(), wait_until="domcontentloaded")
        height = page.locator(".cards").evaluate("cards => cards.getBoundingClientRect().bottom")
        page.screenshot(
            path=ROOT / "examples/feedback.png",
            clip={"x": 0, "y": 0, "width": 900, "height": height + 20},
        )
        of_page(browser, FEEDBACK, "feedback", "body", ".cards")
        of_page(browser, REPORT, "report", 'h3:has-text("Who failed what")', "table.met")
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()

"""Takes the README's two pictures of what `make course` made: the figure of chapter 1, and a student's feedback."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FEEDBACK = ROOT / "_build/sample/feedback/dalia/01-qkv/01-qkv.html"


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
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1500})
        page.goto(f"http://127.0.0.1:{server.server_port}/book/01-qkv.html")
        page.locator(".abh-qkv").wait_for()
        page.locator(".abh-qkv").get_by_role("radio", name="5 Add").check(force=True)
        page.add_style_tag(content=".bd-header, .bd-header-article, #pst-skip-link { display: none !important }")
        page.wait_for_timeout(1500)
        page.locator(".abh-qkv").screenshot(path=ROOT / "examples/book.png")
        page.set_viewport_size({"width": 900, "height": 1500})
        page.goto(FEEDBACK.as_uri(), wait_until="domcontentloaded")
        height = page.locator(".cards").evaluate("cards => cards.getBoundingClientRect().bottom")
        page.screenshot(
            path=ROOT / "examples/feedback.png", clip={"x": 0, "y": 0, "width": 900, "height": height + 20}
        )
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()

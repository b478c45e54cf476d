"""The Chromium that prints and tests the book, and a server for the pages that it opens."""

import functools
import http.server
import os
import shutil
import threading
from contextlib import contextmanager

# The names that distributions give it; course.py, which needs nothing installed, has them as well.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable():
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def arguments():
    """Return the arguments to start it with: it does not sandbox itself for root."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return ["--no-sandbox"] if is_root else []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Print nothing about a request."""


@contextmanager
def served(folder):
    """Serve a folder on a free port; yield the address, without a slash at its end."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()

"""The engine: releases, checks, grades and reports exercises. It knows nothing of attention."""


def __getattr__(name: str) -> str:
    """Return the version, when it is asked for: looking it up takes time that start-up has not."""
    if name == "__version__":
        from importlib.metadata import version

        return version("attention-by-hand")
    raise AttributeError(name)

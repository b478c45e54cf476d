"""One run over a class: finding what was handed in, restoring it, running and judging it, writing what came of it."""

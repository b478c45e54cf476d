"""One run over a class: finding submissions, restoring, running and judging them, and writing
the results.
"""

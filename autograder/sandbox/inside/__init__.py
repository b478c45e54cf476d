"""Code that runs inside the sandbox.

These files are mounted there, and import each other by the names that they have here; see start.py.
"""

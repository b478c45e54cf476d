"""Code that runs inside the sandbox.

These files are mounted there, and import each other by their bare names.
"""

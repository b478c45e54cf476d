"""Lets `python -m autograder` run the command line."""

from autograder.cli import main

main()

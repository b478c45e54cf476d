"""Lets `python -m autograder` run the command line."""

from autograder.cli import main

if __name__ == "__main__":  # a worker process imports this file as well
    main()

"""The commands, by who runs them. They read arguments and print messages; other modules do the
work, and are imported when a command runs: `--help` and completion do not wait for NumPy.
"""

"""The commands, by who runs them. They read arguments and print messages; other modules do the
work.
"""

"""Stands for a grammar that takes 3 seconds to import; jsonschema, which imports it, does
without where it is not.
"""

raise ImportError

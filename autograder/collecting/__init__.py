"""Imports downloads from learning platforms, archives and folders, into nbgrader's `submitted/`."""

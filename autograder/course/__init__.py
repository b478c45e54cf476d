"""The course and its machine: paths, settings, limits, locks, and how a process starts."""

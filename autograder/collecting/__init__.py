"""What schools hand over, archives and folders, made into nbgrader's `submitted/`."""

"""What runs inside the sandbox. These files are bound there, and import each other by their bare names."""

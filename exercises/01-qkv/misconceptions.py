"""Wrong answers that have a name, and right ones that look different."""

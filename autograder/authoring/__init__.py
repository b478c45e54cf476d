"""What authors run: to write an exercise, to verify and release it, and to test its checks."""

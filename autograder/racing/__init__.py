"""Races: kernels of a class, compared."""

"""Feedback pages for students: their outputs, made harmless, and the page around them."""

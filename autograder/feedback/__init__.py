"""What students read: their outputs made harmless, and the page around them."""

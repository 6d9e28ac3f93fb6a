"""A result as one page that works offline."""

"""A run as one page that works offline."""

"""A run as one page that works offline, and the choice of its settings."""

"""People's tables become numbers."""

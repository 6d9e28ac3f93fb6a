"""The rounds between a center and parties that a network connects."""

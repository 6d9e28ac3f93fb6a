"""What is computed from a result, at whoever may see it."""

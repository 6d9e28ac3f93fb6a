"""Masks that cancel in a sum over parties, secret rotations of a blind fit, and private alignment of ids."""

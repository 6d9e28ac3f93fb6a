"""Masks that cancel in a sum over parties, the secret rotations of a blind fit, and private alignment of ids.

Of masked numbers a center learns the sum of all parties and nothing about a single one; in a blind fit it has each
party's factor, rotated. Every secret comes from seeds that the center never has.
"""

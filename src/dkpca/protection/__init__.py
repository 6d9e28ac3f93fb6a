"""Masks that cancel in a sum over parties, and the secret rotations of a blind fit.

Whatever a center does with these, it learns the sum of all parties and nothing about a single one of them. Every
secret comes from seeds that the parties sealed to each other; the center never has one.
"""

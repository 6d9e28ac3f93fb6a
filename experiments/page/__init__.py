"""docs/reproduction.md and its figures, from the result files: no number on the page is typed by hand.

The words are in template.md; each module here computes the values for the sections of one part of it.
"""

"""A search for inputs that break the certificate: tables, kernels, widths, scales, ranks, solvers and precisions.

`python -m experiments.adversary --configurations 10000 --seed 0`
"""

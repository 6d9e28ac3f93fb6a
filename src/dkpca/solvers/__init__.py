"""Eigensolvers for Gram matrices, one a file, all with the contract of `dkpca.eigen.leading`."""

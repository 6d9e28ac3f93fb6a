"""The center: it checks the messages, combines the kernels, computes the leading components, places new samples."""

from dkpca.fusion.fused_model import FusedModel, fuse

__all__ = ["FusedModel", "fuse"]

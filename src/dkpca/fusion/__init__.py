"""The center: it checks the messages, combines the kernels, computes the leading components, places new samples."""

from dkpca.fusion.fused_model import (
    LANDMARKS,
    FusedModel,
    adjusted,
    fuse,
    fused,
    merging,
    place,
    placing,
    project,
    project_exact,
    result,
    row_means,
    training_block,
    without_row_means,
)

__all__ = [
    "LANDMARKS",
    "FusedModel",
    "adjusted",
    "fuse",
    "fused",
    "merging",
    "place",
    "placing",
    "project",
    "project_exact",
    "result",
    "row_means",
    "training_block",
    "without_row_means",
]

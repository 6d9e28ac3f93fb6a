"""What the center does: check what arrived, combine the kernels, take the leading components, place new samples."""

from dkpca.fusion.fused_model import (
    LANDMARKS,
    FusedModel,
    adjusted,
    fuse,
    fused,
    merged_rows,
    place,
    placing,
    project,
    project_exact,
    resolve_gamma,
    result,
    training_block,
)

__all__ = [
    "LANDMARKS",
    "FusedModel",
    "adjusted",
    "fuse",
    "fused",
    "merged_rows",
    "place",
    "placing",
    "project",
    "project_exact",
    "resolve_gamma",
    "result",
    "training_block",
]

"""
Weights as changes of weights that are served already.

A tensor NAME is replaced by a tensor of its name; or some of its elements are, by two: their indices in the flattened
tensor and their values.
"""

from dataclasses import dataclass
from typing import Any

INDICES = ":indices"
"""End of the name of a one-dimensional tensor of type I64."""
VALUES = ":values"
"""End of the name of a tensor of as many elements, of the changed tensor's type."""


@dataclass(frozen=True, slots=True)
class ChangedElements:
    """Elements of a tensor that have changed."""

    indices: Any
    """Tensor or array of integers, one-dimensional: places in the flattened tensor, each at most once, in any order."""
    values: Any
    """Tensor or array of as many elements, of the tensor's type."""

"""
The two forms of sampling.

On a CPU, it pays to compute little: find the rows that need work and visit few nodes. On a GPU, it pays to avoid
waiting: shapes must not depend on data, which the host would have to wait for, so all rows and nodes are computed. Both
forms draw the same tokens from the same inputs.
"""

from enum import StrEnum
from typing import Final

from torch import Tensor


class Form(StrEnum):
    """Form of the computation."""

    FEW = "few"
    """Computes only what is needed, with shapes that depend on data."""
    FIXED = "fixed"
    """Computes everything, with fixed shapes and without waiting for the device."""


FORMS: Final[dict[str, Form]] = {"cpu": Form.FEW}
"""By type of device; `FIXED` for all others. Tests run the fixed form on a CPU."""


def form_of(tensor: Tensor) -> Form:
    """Return the form for a tensor's device."""
    return FORMS.get(tensor.device.type, Form.FIXED)

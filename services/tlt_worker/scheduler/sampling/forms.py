"""
The two forms of sampling.

A CPU does best to compute little: it looks for the rows that need work and visits few nodes. A GPU does best not to be
waited for: shapes must not depend on data, since the host would have to wait for the device to learn them, so all rows
and nodes are computed. Both forms draw the same tokens from the same inputs.
"""

from enum import StrEnum
from typing import Final

from torch import Tensor


class Form(StrEnum):
    """How sampling is computed."""

    FEW = "few"
    """Only what is needed, with shapes that depend on data."""
    FIXED = "fixed"
    """Everything, with fixed shapes and without waiting for the device."""


FORMS: Final[dict[str, Form]] = {"cpu": Form.FEW}
"""By type of device; `FIXED` for all others. Tests run the fixed form on a CPU."""


def form_of(tensor: Tensor) -> Form:
    """Return the form for the device of a tensor."""
    return FORMS.get(tensor.device.type, Form.FIXED)

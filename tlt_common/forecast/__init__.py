"""
What is left of running responses, learned from the lengths of others. Pure: no clock, no I/O, no prompts.

Others use `Forecaster`, `Running`, `Left`, `LengthHistory`, `LengthCurve`, `CostCurve`, `TokenPace`, and what is in
`tail` and `load`.
"""

from tlt_common.forecast.curve import LengthCurve
from tlt_common.forecast.forecaster import Forecaster, Running
from tlt_common.forecast.history import LengthHistory
from tlt_common.forecast.left import LEVELS, Left, last_end
from tlt_common.forecast.pace import CostCurve, TokenPace
from tlt_common.forecast.tail import TailRequest, TailView, TailWorker

__all__ = [
    "LEVELS",
    "CostCurve",
    "Forecaster",
    "Left",
    "LengthCurve",
    "LengthHistory",
    "Running",
    "TailRequest",
    "TailView",
    "TailWorker",
    "TokenPace",
    "last_end",
]

"""Published runs, for comparison and as starting points."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tlt_common.errors import ConfigError
from tlt_simulator.cases.bytedance import bytedance
from tlt_simulator.cases.case import CaseRow, Measure, PublishedCase
from tlt_simulator.cases.nemo_rl import nemo_rl
from tlt_simulator.cases.paper import paper

__all__ = ["CASES", "CaseRow", "Measure", "PublishedCase", "case"]

CASES: Mapping[str, Callable[[], PublishedCase]] = MappingProxyType(
    {"paper": paper, "nemo-rl": nemo_rl, "bytedance-32b": bytedance}
)
"""All cases by name."""


def case(name: str) -> PublishedCase:
    """
    Return a case.

    Raises:
        ConfigError: No case has this name.
    """
    if name not in CASES:
        raise ConfigError(f"--case is {name!r}; accepted: {', '.join(CASES)}", field="case")
    return CASES[name]()

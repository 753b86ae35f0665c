"""Published runs, for comparison and as starting points."""

from tlt_simulator.cases.case import CaseRow, Measure, PublishedCase
from tlt_simulator.cases.shipped import case, names

__all__ = ["CaseRow", "Measure", "PublishedCase", "case", "names"]

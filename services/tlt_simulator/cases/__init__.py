"""Runs that others have published, to compare with and to begin from."""

from tlt_simulator.cases.case import Case, CaseRow, Measure
from tlt_simulator.cases.shipped import case, names

__all__ = ["Case", "CaseRow", "Measure", "case", "names"]

"""The report of a run: one HTML page that needs nothing else, and three lines for the terminal."""

from tlt_lab.demo.report.page import write_report
from tlt_lab.demo.report.terminal import last_screen

__all__ = ["last_screen", "write_report"]

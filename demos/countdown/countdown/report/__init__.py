"""The report of a run: one self-contained HTML page, and four lines for the terminal."""

from countdown.report.page import write_report
from countdown.report.terminal import last_screen

__all__ = ["last_screen", "write_report"]

"""
A simulation as one HTML file, complete in itself: nothing is loaded from anywhere.

Others use `page` and `write_page`.
"""

from tlt_simulator.report.page.page import page, write_page

__all__ = ["page", "write_page"]

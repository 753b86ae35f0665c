"""
Renders a simulation as one self-contained HTML file.

Others use `page` and `write_page`.
"""

from tlt_simulator.report.page.page import page, write_page

__all__ = ["page", "write_page"]

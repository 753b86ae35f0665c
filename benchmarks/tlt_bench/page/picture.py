"""`python -m tlt_bench.page.picture PICTURE.png`: takes a screenshot of the page of a simulated fleet."""

import sys

from countdown.browser import browsing
from tlt_bench.page.served_page import serving

WORKERS = 12
SETTLE_S = 45.0
"""Until there are a few drafters."""


def main(picture: str) -> None:
    """Write a screenshot of the fleet's view."""
    with serving(WORKERS) as served, browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860}, device_scale_factor=1.5)
        page.goto(f"{served.url}#/fleet")
        page.wait_for_timeout(SETTLE_S * 1e3)
        page.screenshot(path=picture)


if __name__ == "__main__":
    main(*sys.argv[1:])

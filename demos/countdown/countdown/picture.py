"""`python -m countdown.picture RUN.json PICTURE.png`: photographs the typical step of a run with and without TLT."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from countdown.browser import browsing
from countdown.record import Run
from countdown.report import write_report

WIDTH_PIXELS, SCALE = 1040, 1.5


def main(record: str, picture: str) -> None:
    """Write the compared step with the median speedup as a picture."""
    run = Run.model_validate_json(Path(record).read_text())
    with TemporaryDirectory() as folder, browsing() as browser:
        page = browser.new_page(viewport={"width": WIDTH_PIXELS, "height": 800}, device_scale_factor=SCALE)
        page.goto(write_report(run, Path(folder)).as_uri())
        found = page.locator(".both-sides")
        if not found.count():
            sys.exit(f"{record}: no step was compared")
        found.screenshot(path=picture)


if __name__ == "__main__":
    main(*sys.argv[1:])

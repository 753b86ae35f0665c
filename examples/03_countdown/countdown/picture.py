"""`python -m countdown.picture RUN.json PICTURE.png`: draws the typical step of a run with and without TLT."""

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from countdown.record import Run
from countdown.report.both_sides import height, paint, typical
from countdown.report.chart import STYLE, WIDTH_INCHES


def main(record: str, picture: str) -> None:
    """Write the compared step with the median speedup as a picture."""
    run = Run.model_validate_json(Path(record).read_text())
    if (step := typical(run)) is None:
        sys.exit(f"{record}: no step was compared")
    with mpl.rc_context({**STYLE, "figure.facecolor": "white"}):
        figure = Figure(figsize=(WIDTH_INCHES, height(run)), layout="constrained")
        paint(figure, run, step)
        figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Embeds the page's renderer in self-contained HTML files, such as reports."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from pydantic import JsonValue

from tlt_common.timeline import LaneRow, TimelineDocument

_FOLDER = Path(__file__).parent
_PAGE = _FOLDER / "page"
_MODULES = (_PAGE / "raster.js", _PAGE / "timeline.js", _FOLDER / "embedded.js")


def colours() -> str:
    """Return the CSS variables that the renderer needs, for light and dark; a style sheet that begins with them."""
    return (_PAGE / "style.css").read_text(encoding="utf-8").partition("\n\n")[0] + "\n"


def canvas(name: str, description: str, document: TimelineDocument, options: Mapping[str, JsonValue]) -> str:
    """
    Return a canvas on which `script` draws a timeline.

    Args:
        name: Unique name within the page.
        description: Text alternative for the picture.
        document: The timeline.
        options: See `draw` in page/timeline.js.
    """
    drawn = json.dumps({"timeline": document.model_dump(mode="json"), "options": dict(options)}, separators=(",", ":"))
    inline = drawn.replace("<", "\\u003c")  # ends no script, whatever a worker is called
    return (
        f'<canvas class=timeline role=img aria-label="{escape(description)}" data-timeline="{name}-data"></canvas>'
        f'<script type="application/json" id="{name}-data">{inline}</script>'
    )


def swatch(state: str) -> str:
    """Return a swatch of a state, which `script` draws."""
    return f'<canvas class=swatch aria-hidden=true data-state="{state}"></canvas>'


def bar(description: str, parts: Iterable[tuple[str, float]]) -> str:
    """Return a bar of states with their shares of it, which `script` draws."""
    shares = escape(json.dumps(list(parts)))
    return f'<canvas class=bar role=img aria-label="{escape(description)}" data-parts="{shares}"></canvas>'


def table(document: TimelineDocument) -> str:
    """Return the share of each state as a text alternative."""
    rows = [(row.label, _shares(row, document.columns)) for row in document.rows if isinstance(row, LaneRow)]
    rows += [
        (row.label, {state: sum(shares) / 100 / document.columns for state, shares in row.shares.items()})
        for row in document.rows
        if not isinstance(row, LaneRow)
    ]
    states = [(number, state) for number, state in enumerate(document.states) if any(of.get(number) for _, of in rows)]
    body = "".join(
        f"<tr><th scope=row>{escape(label)}</th>"
        + "".join(f"<td>{shares.get(number, 0.0):.0%}</td>" for number, _ in states)
        + "</tr>"
        for label, shares in rows
    )
    heads = "".join(f"<th scope=col>{state}</th>" for _, state in states)
    return (
        "<details><summary>Show as a table</summary><div class=wide><table><thead><tr><th scope=col>Share of time</th>"
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def script() -> str:
    """Return the renderer, with code that draws all timelines, bars and swatches of a page."""
    modules = [module.read_text(encoding="utf-8") for module in _MODULES]
    joined = "\n".join(re.sub(r"^import .*\n|^export ", "", module, flags=re.MULTILINE) for module in modules)
    return f"<script type=module>\n{joined}</script>"


def _shares(row: LaneRow, columns: int) -> dict[int, float]:
    return {state: _columns(row.runs, state) / columns for state, _ in row.runs}


def _columns(runs: Sequence[tuple[int, int]], number: int) -> int:
    return sum(length for state, length in runs if state == number)

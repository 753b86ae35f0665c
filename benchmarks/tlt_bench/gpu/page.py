"""The outcomes of `tlt bench gpu` as one self-contained HTML page. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from tlt_bench.gpu.part import PASSED, GpuOutcome
from tlt_bench.gpu.published import PUBLISHED

STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#888}
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.2rem 0}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0}
td,th{border-bottom:1px solid var(--line);padding:.2rem .7rem .2rem 0;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}code,pre{font-size:.85em}pre{overflow-x:auto}
.soft{color:var(--soft)}.bad{font-weight:600;text-decoration:underline wavy}
"""
CELL: Final = re.compile(r"(cost|speed)_(.+)_bs(\d+)")
"""Figures of the part `grid`."""
TITLES: Final = {
    "cost": "Cost of a round, in rounds of off: the accept length at which an arm breaks even",
    "speed": "Speed ÷ off, with the accept lengths of the demo's drafter",
}
GRID: Final = "grid"


def page(outcomes: Sequence[GpuOutcome], machine: Mapping[str, str]) -> str:
    """Return the page."""
    facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in machine.items())
    passed = sum(one.has_passed for one in outcomes)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>TLT on this GPU</title>',
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>',
            f"<h1>TLT on this GPU</h1><p>{passed} of {len(outcomes)} parts passed.</p>",
            f'<div class="wide"><table>{facts}</table></div>',
            *_beside_published(outcomes),
            *(line for one in outcomes for line in _part(one)),
            "</body></html>\n",
        ]
    )


def _beside_published(outcomes: Sequence[GpuOutcome]) -> Iterator[str]:
    known = {f"{one.name}_{name}": value for one in outcomes for name, value in one.figures.items()}
    rows = [
        f'<tr><td><code>{escape(name)}</code></td><td class="n">{known[name]:.4g}</td>'
        f'<td class="n">{escape(other.value)}</td><td>{"aim" if other.is_ours else "paper"}: {escape(other.meaning)}'
        "</td></tr>"
        for name, other in PUBLISHED.items()
        if name in known
    ]
    if rows:
        yield "<h2>Beside the paper and our aims</h2>"
        yield '<p class="soft">The paper measured other models on other machines: compare the size of ratios.</p>'
        yield _table(["figure", "here", "there", "meaning"], rows)


def _part(one: GpuOutcome) -> Iterator[str]:
    state = escape(one.status) if one.has_passed else f'<span class="bad">{escape(one.status)}</span>'
    yield f"<h2>{escape(one.name)}</h2><p>{escape(one.shows)}.</p>"
    yield f'<p>{state}, {one.seconds:.0f} s <span class="soft"><code>{escape(one.command)}</code></span></p>'
    cells = {name: match for name in one.figures if (match := CELL.fullmatch(name))} if one.name == GRID else {}
    for kind, title in TITLES.items():
        chosen = {(match[2], int(match[3])): one.figures[name] for name, match in cells.items() if match[1] == kind}
        if chosen:
            yield f"<p>{title}</p>"
            yield _grid(chosen)
    rest = [
        f'<tr><td><code>{escape(name)}</code></td><td class="n">{value:.4g}</td></tr>'
        for name, value in one.figures.items()
        if name not in cells
    ]
    if rest:
        yield _table(["figure", "value"], rest)
    if one.tail and one.status != PASSED:
        yield f"<pre>{escape(one.tail)}</pre>"


def _grid(cells: Mapping[tuple[str, int], float]) -> str:
    batches = sorted({batch for _, batch in cells})
    rows = []
    for arm in dict.fromkeys(arm for arm, _ in cells):
        values = (cells.get((arm, batch)) for batch in batches)
        shown = "".join(f'<td class="n">{"" if value is None else f"{value:.2f}"}</td>' for value in values)
        rows.append(f"<tr><td>{escape(arm)}</td>{shown}</tr>")
    return _table(["arm", *(f"batch {batch}" for batch in batches)], rows)


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'

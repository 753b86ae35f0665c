"""Figures in prose come from runs that were recorded, and are written nowhere else."""

import re
from pathlib import Path

import pytest

from reference import figures
from reference.figures import MARK, SHOWN, TABLE, Measured, rendered
from reference.write import pages

ROOT = Path(__file__).parents[3]
GENERATED = {"configuration.md", "metrics.md", "models.md", "gpu-memory.md"}
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED),
]
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
VERSION_OF = re.compile(
    r"(?:python|kubernetes|kuberay|sglang|trl|torch|cuda|helm|ray|verl|vllm|transformers|redis|debian|go|api|mcp|"
    r"version|qwen|llama|arxiv|apache|eagle|glm|temperatures?|top-p|min-p)(?:[ -]?[\d.]+(?:,| and| to|))*[ -]?$",
    re.IGNORECASE,
)
FIGURE = re.compile(r"(?<![\w.])(?:\d+\.\d+(?![\w]*\.\d)|\d+ ?%|\d+ times\b)")


GENERATED_PART = re.compile(r"<!-- results: .*?\n\n(?:\|.*\n)+", re.DOTALL)
"""A table that a suite writes into its page, such as `make trainers WRITE=docs/trainers.md`."""


def typed(text: str) -> list[tuple[str, str]]:
    """Return the figures of a page that no run is named for: each with the words around it, and with those behind."""
    text = MARK.sub("", TABLE.sub("", GENERATED_PART.sub("", text)))
    text = CODE.sub(lambda code: re.sub(r"\S", " ", code[0]), text)
    found: list[tuple[str, str]] = []
    for figure in FIGURE.finditer(text):
        line = text[text.rfind("\n", 0, figure.start()) + 1 : figure.start()]
        if not VERSION_OF.search(line):
            after = figure[0] + text[figure.end() : figure.end() + 25].partition("\n")[0]
            found.append((f"{line[-25:]}{after}", after))
    return found


NOT_MEASURED = {
    "architecture.md": (
        "0.5 KiB",
        "5 % of what Redis",
        "0.01",
    ),  # sizes that were tried, a bound that a test holds, a setting
    "campaign.md": ("5 % loss", "0.4 s", "0.001"),  # what the campaign does, and its limits
    "drafters.md": ("99.9 % of",),  # a setting
    "gpu.md": ("0.5B", "7.3 billion", "14.7 GB"),  # sizes of models
    "how-it-works.md": ("0.3 s", "0.01 tokens"),  # settings
    "kubernetes.md": (
        *("1.29 or", "4.2 |", "1.6 or", "1.3 |"),  # versions
        *("0.8 GiB)", "0.25 CPU", "0.5 CPU", "1.5 to", "2 times", "0.1 CPU"),  # requests of the chart
        *("20 times.", "0 % |"),  # what others do, and a symptom
    ),
    "problems.md": (
        *("0 % for", "1.0 after", "17 times"),  # symptoms, as people report them
        *("1.0 for each", "0.54 GB"),  # exact by construction, a size
    ),
    "sampling.md": ("0.01 over", "0.3, an", "0.9, residuals"),  # levels of tests
    "simulate.md": ("0.85, assumed", "90 % interval"),
    "traces.md": ("1.16,", "32 times", "0.6, 0.1, 0.5", "0.1, 0.5", "0.5 |"),  # a version, a limit, columns of a format
    "trainers.md": ("1.16", "1.10,", "1.12,", "1.14,", "1.15 |", "1.17 |", "1.18 and"),  # versions
    "troubleshooting.md": ("0.05 of",),  # a setting
    "tuner.md": ("1.4 while", "1 % of"),  # settings
}
"""Numbers of each page that no run measures, with the words behind them."""
ASSUMED = {"costs.md"}
"""Pages about what simulations assume, each number with its source beside it."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ASSUMED], ids=lambda page: str(page.name))
def test_a_page_types_no_figure(page: Path) -> None:
    known = NOT_MEASURED.get(page.name, ())
    found = typed(page.read_text())
    assert not [words for words, after in found if not after.startswith(known)]


@pytest.mark.parametrize("name", NOT_MEASURED)
def test_no_exception_is_out_of_date(name: str) -> None:
    found = [after for _, after in typed((ROOT / "docs" / name).read_text())]
    for known in NOT_MEASURED[name]:
        assert any(after.startswith(known) for after in found), known


def run(name: str, value: float) -> Measured:
    return Measured(
        name=name,
        command="tlt bench x",
        machine="a machine",
        commit="abc",
        date="2026-11-28",
        figures={"ratio": value, "share": value / 10},
        spread={"ratio": (value - 1, value + 1), "share": (0.0, 1.0)},
        served="",
    )


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {name: run(name, value) for name, value in (("a-1", 2.0), ("a-2", 3.5), ("b", 1200.0))}
    monkeypatch.setattr(figures, "runs", lambda: found)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("before", "mark", "after"),
    [
        ("9.99", "a-1: ratio", "2.00"),
        ("9 [7, 8]", "a-1: ratio", "2 [1, 3]"),
        ("1.5 to 1.6", "a-1: ratio spread", "1.0 to 3.0"),
        ("1.00 to 2.00", "a-*: ratio", "2.00 to 3.50"),
        ("3 to 1,100", "a-2,b: ratio", "4 to 1,200"),
        ("3 %", "a-1: share", "20 %"),
        ("3.0%", "a-1: share", "20.0%"),
        ("1 to 3 %", "a-*: share", "20 to 35 %"),
        ("1.0e-3", "a-1: ratio", "2.0e0"),
    ],
)
def test_a_mark_writes_the_number_before_it(before: str, mark: str, after: str) -> None:
    assert re.fullmatch(SHOWN, before)
    made = f"It is {after}<!-- figure {mark} --> now."
    assert rendered(f"It is {before}<!-- figure {mark} --> now.") == made
    assert rendered(made) == made


@pytest.mark.usefixtures("recorded")
def test_a_table_shows_the_figures_that_its_rows_name() -> None:
    head = "<!-- figures a-1, b -->\n\n| figure | meaning | here | there |\n| --- | --- | --- | --- |\n"
    rows = [
        ("| `ratio`, `share` | of 2 runs | 1.0 [0, 5], 7 % | -, 3.1 |", "| 2.0 [1.0, 3.0], 20 % | -, 120.0 |"),
        ("| others | of 2 runs | 8 | 9 |", "| 8 | 9 |"),
        ("| `ratio` | 1 | 4 (quartiles 8 and 9) | - |", "| 2 (quartiles 8 and 9) | - |"),
        ("| `share_x`, `_y` | | all | not run |", "| all | not run |"),
    ]
    made = rendered(head + "\n".join(row for row, _ in rows) + "\n\nIt ends with 5 | 6.\n")
    for line, (_, end) in zip(made.splitlines()[4:], rows, strict=False):
        assert line.endswith(end)
    assert made.endswith("It ends with 5 | 6.\n")
    assert rendered(made) == made


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("fast<!-- figure a-1: ratio -->", "do not directly follow a number"),
        ("2 <!-- figure a-1: ratio -->", "do not directly follow a number"),
        ("2<!-- figure a-1: ratio median -->", "malformed"),
        ("2<!-- figure c: ratio -->", "there is no run c; runs: a-1, a-2, b"),
        ("2<!-- figure a-1: time -->", "no run a-1 has a figure time"),
        ("2<!-- figure a-*: ratio -->", "ratio of a-1, a-2 is shown as one number"),
        ("<!-- figures a-1 -->\n\n| f | r |\n| - | - |\n| `ratio`, `share` | 1 |\n", "2 figures shows 1 numbers"),
        ("<!-- figures c -->\n\n| f | r |\n| - | - |\n| `ratio` | 1 |\n", "there is no run c"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        rendered(page)


def test_every_page_with_marks_is_rendered() -> None:
    marked = {page for page in (*PAGES, *(ROOT / "docs/results").glob("*.md")) if "<!-- figure" in page.read_text()}
    made = {(ROOT / "docs" / name).resolve() for name in pages(ROOT / "docs")}
    assert ROOT / "docs/results/cpu.md" in marked
    assert marked <= made


def test_every_run_says_what_it_stands_on() -> None:
    assert figures.runs()
    for found in figures.runs().values():
        assert found.command.startswith(("tlt ", "make "))
        assert found.machine
        assert re.fullmatch(r"[0-9a-f]{7,10}", found.commit), f"{found.name}: measure a commit, not changes to it"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("twice as fast", 0),
        ("1.5 times as fast", 1),
        ("gains 20 % and 2 times", 2),
        ("1.5<!-- figure a: b --> times", 0),
        ("`0.5` and Python 3.11 to 3.13, temperature 0.6, [x](y-0.5.md)", 0),
        ("version 1.2.3, section 3", 0),
    ],
)
def test_a_typed_figure_is_found(text: str, found: int) -> None:
    assert len(typed(text)) == found

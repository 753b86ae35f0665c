"""Markdown that the generated pages are made of."""

from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """Text that fits one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Join rows of finished cells; ends in a line break."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

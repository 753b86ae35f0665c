"""HTML fragments. Callers escape values from traces and scenarios."""

from collections.abc import Collection, Iterable, Sequence


def section(title: str, body: str) -> str:
    """Return a section with a heading."""
    return f"<section><h2>{title}</h2>{body}</section>"


def figure(picture: str, caption: str) -> str:
    """Return a picture with its caption."""
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, text: Collection[str] = ()) -> str:
    """
    Return a table that scrolls within the page if it is wider. The first cell of a row is its heading.

    Args:
        heads: Headings of the columns.
        rows: Cells.
        text: Headings of columns with text instead of numbers.
    """
    kinds = [" class=text" if head in text else "" for head in heads]
    heading = "".join(f"<th scope=col{kind}>{cell}</th>" for kind, cell in zip(kinds, heads, strict=True))
    body = "".join(f"<tr><th scope=row>{first}</th>{_cells(rest, kinds[1:])}</tr>" for first, *rest in rows)
    top = f"<thead><tr>{heading}</tr></thead>" if heading else ""
    return f"<div class=wide tabindex=0 role=region aria-label=Table><table>{top}<tbody>{body}</tbody></table></div>"


def _cells(cells: Sequence[str], kinds: Sequence[str]) -> str:
    return "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True))


def behind(body: str, summary: str = "Show as a table") -> str:
    """Return a collapsible element."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def keys(*named: tuple[str, str]) -> str:
    """Return a legend of swatches and labels."""
    return f"<p class=keys>{''.join(f'<span>{swatch}{name}</span>' for swatch, name in named)}</p>"


def dot(kind: str) -> str:
    """Return the swatch of a line or a bar, by its class."""
    return f'<i class="swatch {kind}" aria-hidden=true></i>'

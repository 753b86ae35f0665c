"""Docstrings with the sections Args, Returns and Raises, as Markdown."""

import re
from collections.abc import Iterator

SECTION = re.compile(r"^(Args|Returns|Raises):$")
ENTRY = re.compile(r"^    (\w[\w.]*): (.*)$")


def markdown(docstring: str) -> str:
    """Turn sections into bold headings with lists; all else stays as it is."""
    return "\n".join(_lines(docstring)).strip() + "\n"


def _lines(docstring: str) -> Iterator[str]:
    section = ""
    for line in docstring.splitlines():
        if match := SECTION.match(line):
            section = match[1]
            yield from (f"**{section}**", "")
        elif section and line.strip() and not line.startswith(" "):
            section = ""
            yield from ("", line)
        elif section and section != "Returns" and (entry := ENTRY.match(line)):
            yield f"- `{entry[1]}`: {entry[2]}"
        elif section:
            yield f"  {line.strip()}" if section != "Returns" and line.strip() else line.strip()
        else:
            yield line

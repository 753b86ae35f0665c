"""An MkDocs hook: a link to a file of the repository that is no page becomes the file's path."""

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(text: str, /, *, page: Any, **_: Any) -> str:
    """Replace links that leave docs/, which the site does not contain."""
    directory = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def replaced(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(directory, match[2]))
        if path.startswith("docs/"):
            return match[0]
        return f"`{path}`" if match[1].strip("`") == path else f"{match[1]} (`{path}`)"

    return LINK.sub(replaced, text)

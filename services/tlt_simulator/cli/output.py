"""Output of results."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from tlt_common.errors import ConfigError
from tlt_common.whole_file import write_whole

STANDARD_OUTPUT = "-"


def write_json(value: Any, to: str) -> None:
    """
    Write JSON to a file, or to standard output.

    Raises:
        ConfigError: The file cannot be written.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if to == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        write_whole(Path(to), text.encode())
    except OSError as error:
        raise ConfigError(f"--json {to}: {error.strerror}", field="json") from error


def require_directory(path: Path, option: str) -> None:
    """
    Check that a file can be created, before a long run starts.

    Raises:
        ConfigError: Its directory does not exist, or the path is a directory.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "is a directory" if path.is_dir() else f"{path.parent} does not exist"
        raise ConfigError(
            f"{option} {path}: {what}; accepted: a file in an existing directory", field=option.lstrip("-")
        )


def show(part: RenderableType) -> None:
    """Print for people, with enough width for tables if the terminal does not report one."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    console.print(part)

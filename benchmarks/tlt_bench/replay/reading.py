"""Reads traces from files."""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tlt_common.bandit.round_trace import TracedRound, parsed, parsed_header
from tlt_common.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Rounds in the order they ran."""

    about: Mapping[str, Any]
    rounds: tuple[TracedRound, ...]


def read_trace(path: Path) -> Trace:
    """
    Read a trace. Files named .gz are decompressed.

    Raises:
        ConfigError: The file is missing, empty or not a trace; the message names the line and what is accepted.
    """
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            lines = file.read().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; accepted: a trace of rounds", field="trace") from error
    if len(lines) < 2:
        raise ConfigError(f"{path} has no rounds; accepted: a trace of at least one round", field="trace")
    about = parsed_header(f"{path}:1", lines[0])
    rounds = tuple(parsed(f"{path}:{number}", line) for number, line in enumerate(lines[1:], start=2))
    for number, (before, after) in enumerate(pairwise(rounds), start=3):
        if after.at_s < before.at_s:
            raise ConfigError(
                f"{path}:{number}: at_s {after.at_s} follows {before.at_s}; rounds must be in order", field="at_s"
            )
    return Trace(about=about, rounds=rounds)

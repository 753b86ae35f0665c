"""Reads weights ahead of loading, to fill the page cache and to check that values are finite."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tlt_common.errors import ConfigError, WeightsError
from tlt_common.weights.checkpoint import entries_in
from tlt_common.weights.safetensors_file import Piece
from tlt_worker.checkpoints.finite import require_finite

PARALLEL_READS = 8
"""Parts read at the same time; one stream does not fill the link to a file server."""
PART_BYTES = 2**28
BUFFER_BYTES = 2**23
"""A multiple of every number's size, as the former."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """A byte range of a tensor."""

    entry: Piece
    start: int
    end: int


def read_ahead(directory: Path) -> None:
    """
    Read a checkpoint's tensors, so that they are in the page cache if it has room for them. Blocks on disk reads.

    Raises:
        OSError: A file cannot be read.
        WeightsError: A tensor has values that are not finite.
    """
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="read-ahead") as pool:
        for _ in pool.map(_read, *zip(*_parts(directory), strict=True)):
            pass


def require_numbers(model: Path) -> None:
    """
    Check that all values of a model are finite before it is loaded, which also reads it ahead. Blocks on disk reads.

    Raises:
        ConfigError: A tensor has values that are not finite, or cannot be read.
    """
    try:
        read_ahead(model)
    except (OSError, WeightsError) as error:
        raise ConfigError(f"model: {model}: {error}", field="model") from error


def _parts(directory: Path) -> Iterator[tuple[Path, list[_Range]]]:
    """Yield ranges of one file in groups of about `PART_BYTES`: a mixture of experts has 40,000 tensors."""
    last, ranges, held = Path(), list[_Range](), 0
    for entry in entries_in(directory):
        entry_end = entry.position + entry.length
        for start in range(entry.position, entry_end, PART_BYTES):
            if ranges and (entry.file != last or held >= PART_BYTES):
                yield last, ranges
                ranges, held = [], 0
            last, end = entry.file, min(entry_end, start + PART_BYTES)
            ranges.append(_Range(entry=entry, start=start, end=end))
            held += end - start
    if ranges:
        yield last, ranges


def _read(file: Path, ranges: list[_Range]) -> None:
    buffer = memoryview(bytearray(BUFFER_BYTES))
    with file.open("rb") as stream:
        for each in ranges:
            stream.seek(each.start)
            for position in range(each.start, each.end, BUFFER_BYTES):
                wanted = buffer[: min(BUFFER_BYTES, each.end - position)]
                if stream.readinto(wanted) != len(wanted):
                    raise OSError(f"{file} ends within tensor {each.entry.name!r}")
                require_finite(each.entry.name, each.entry.dtype, wanted)

"""Summary of a journal. Pure, except for reading files."""

from collections import Counter
from dataclasses import dataclass

from tlt_common.journal.coordinator_lines import TrainedLine, WorkerLine
from tlt_common.journal.format import Header
from tlt_common.journal.gateway_lines import EngineLine, ResponseLine, RoundsLine, UpdateLine
from tlt_common.journal.line import DroppedLine, Line
from tlt_common.journal.reader import JournalReader


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContents:
    """Statistics of one service's journal."""

    service: str
    id: str
    files: int
    size_bytes: int
    runs: int
    suites: tuple[str, ...]
    """Versions of the suite that wrote the journal."""
    began_s: float
    """Unix time of its beginning."""
    seconds: float
    """Seconds from the beginning to the last line."""
    lines: dict[str, int]
    """Number of lines by kind."""
    workers: int
    groups: int
    """Number of distinct prompts."""
    tokens: int
    """Tokens generated for the responses."""
    steps: int
    """Number of weight versions installed through a gateway."""
    rounds: int
    trained_s: float
    """Device-seconds of training."""
    dropped: int
    """Number of lines that were not written."""
    cut: str
    """Location of a truncated last line; empty if there is none."""


def contents_of(journal: JournalReader) -> JournalContents:
    """
    Read a journal.

    Raises:
        ConfigError: It is invalid; the message names file, line and field, and what is accepted.
    """
    headers, found = list[Header](), Counter[str]()
    sums, workers, groups, versions = Counter[str](), set[str](), set[str](), set[int]()
    first_s = last_s = trained_s = 0.0
    for line in journal.lines():
        if isinstance(line, Header):
            headers.append(line)
            first_s = first_s or line.began
            last_s = max(last_s, line.began)
            continue
        found[line.kind] += 1
        last_s = max(last_s, line.at)
        workers |= _workers(line)
        match line:
            case ResponseLine(group=group, tokens=tokens, prefix=prefix):
                groups.add(group)
                sums["tokens"] += tokens - prefix
            case UpdateLine(done=True, version=version):
                versions.add(version)
            case RoundsLine(rounds=rounds):
                sums["rounds"] += rounds
            case TrainedLine(seconds=seconds):
                trained_s += seconds
            case DroppedLine(lines=lines):
                sums["dropped"] += lines
    return JournalContents(
        service=journal.service,
        id=journal.id,
        files=len(journal.files),
        size_bytes=journal.size_bytes,
        runs=len(headers),
        suites=tuple(dict.fromkeys(header.suite for header in headers)),
        began_s=first_s,
        seconds=last_s - first_s,
        lines=dict(sorted(found.items())),
        workers=len(workers),
        groups=len(groups),
        tokens=sums["tokens"],
        steps=len(versions),
        rounds=sums["rounds"],
        trained_s=trained_s,
        dropped=sums["dropped"],
        cut=journal.cut,
    )


def _workers(line: Line) -> set[str]:
    match line:
        case EngineLine(worker=worker) | WorkerLine(worker=worker):
            return {worker}
        case ResponseLine(stays=stays):
            return {stay.worker for stay in stays}
    return set()

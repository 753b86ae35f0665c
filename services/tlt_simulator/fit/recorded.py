"""A recorded run: the lines of the last run in a directory of journals."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import (
    DrafterLine,
    LeaseLine,
    LendingLine,
    StateLine,
    TrainedLine,
    WorkerLine,
)
from tlt_common.journal.format import Header
from tlt_common.journal.gateway_lines import EngineLine, PrefillLine, ResponseLine, RoundsLine, UpdateLine
from tlt_common.journal.line import DroppedLine, Line
from tlt_common.journal.reader import journals_in

AnyLine = TypeVar("AnyLine", bound=Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """Journal lines of gateways and coordinator, each in order of time."""

    source: Path
    responses: tuple[ResponseLine, ...]
    """Responses of all gateways."""
    rounds: tuple[RoundsLine, ...]
    """Rounds from one gateway, which receives those of all workers."""
    prefills: tuple[PrefillLine, ...]
    updates: tuple[UpdateLine, ...]
    """Installed updates."""
    engines: tuple[EngineLine, ...]
    workers: tuple[WorkerLine, ...]
    states: tuple[StateLine, ...]
    leases: tuple[LeaseLine, ...]
    trained: tuple[TrainedLine, ...]
    drafters: tuple[DrafterLine, ...]
    lending: tuple[LendingLine, ...]
    ended_s: float
    """Unix time of the last line."""

    def until(self, at_s: float) -> "RecordedRun":
        """Return the part of the run that was over by a time."""
        return RecordedRun(
            source=self.source,
            responses=_until(self.responses, at_s),
            rounds=_until(self.rounds, at_s),
            prefills=_until(self.prefills, at_s),
            updates=_until(self.updates, at_s),
            engines=_until(self.engines, at_s),
            workers=_until(self.workers, at_s),
            states=_until(self.states, at_s),
            leases=_until(self.leases, at_s),
            trained=_until(self.trained, at_s),
            drafters=_until(self.drafters, at_s),
            lending=_until(self.lending, at_s),
            ended_s=min(self.ended_s, at_s),
        )


def recorded_run(directory: Path) -> RecordedRun:
    """
    Read the last run of the gateways and of the coordinator in a directory.

    Raises:
        ConfigError: A journal is invalid or has gaps, or there is no gateway's journal.
    """
    lines, first_gateway = list[Line](), list[Line]()
    for journal in journals_in(directory):
        own = list[Line]()
        for line in journal.lines():
            if isinstance(line, Header):
                own.clear()
            elif isinstance(line, DroppedLine):
                raise ConfigError(
                    f"{directory}: {journal.service} {journal.id} dropped {line.lines} lines, since its disk was too "
                    "slow; accepted: a journal without gaps",
                    field="journal",
                )
            else:
                own.append(line)
        lines += own
        if journal.service == "gateway" and not first_gateway:
            first_gateway = own
    responses = _of(ResponseLine, lines)
    if not responses:
        raise ConfigError(
            f"{directory} has no responses in its last run; accepted: the journal of a gateway (gateway.journal)",
            field="journal",
        )
    return RecordedRun(
        source=directory,
        responses=responses,
        rounds=_of(RoundsLine, first_gateway),
        prefills=_of(PrefillLine, first_gateway),
        updates=tuple(line for line in _of(UpdateLine, lines) if line.done),
        engines=_of(EngineLine, first_gateway),
        workers=_of(WorkerLine, lines),
        states=_of(StateLine, lines),
        leases=_of(LeaseLine, lines),
        trained=_of(TrainedLine, lines),
        drafters=_of(DrafterLine, lines),
        lending=_of(LendingLine, lines),
        ended_s=max(line.at for line in lines),
    )


def _of(kind: type[AnyLine], lines: Iterable[Line]) -> tuple[AnyLine, ...]:
    return tuple(sorted((line for line in lines if isinstance(line, kind)), key=lambda line: line.at))


def _until(lines: tuple[AnyLine, ...], at_s: float) -> tuple[AnyLine, ...]:
    return tuple(line for line in lines if line.at <= at_s)

"""
The journal of gateways: `gateway.journal`, tlt-journal/1 (tlt_common/journal; docs/journal.md).

A step begins with an update of the weights. A response belongs to the step in which it arrived. A comparison, as
`tlt demo` records it, rolls out each step with the suite and without it: the responses are those with the suite, and
the times are those of both sides. Responses without the suite are those that were requested while lending was off, as
the coordinator's journal tells, and had no drafts.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import inf
from pathlib import Path

from tlt_common.domain.response import FinishReason
from tlt_common.journal.coordinator_lines import LendingLine
from tlt_common.journal.files import SUFFIX, files_in
from tlt_common.journal.format import FORMAT
from tlt_common.journal.gateway_lines import RequestOutcome, ResponseLine, UpdateLine
from tlt_common.journal.reader import JournalReader, journals_in
from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, FoundStep, ReadOptions
from tlt_simulator.traces.values import refused

SERVICE, COORDINATOR = "gateway", "coordinator"


class JournalForm:
    """Reads gateways' journals."""

    name = "journal"
    about = "the journals of a run with the suite (gateway.journal): a directory"
    tokens_field = "tokens"
    group_field = "group"

    def fits(self, look: FirstLook) -> bool:
        return look.first.get("format") == FORMAT

    def first_of(self, directory: Path) -> Path | None:
        return min(directory.glob(f"{SERVICE}-*{SUFFIX}"), default=None)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        if path.is_dir():
            journals = [journal for journal in journals_in(path) if journal.service == SERVICE]
        else:
            files = tuple(file for file in files_in(path.parent) if file.path == path and file.service == SERVICE)
            journals = [JournalReader(files)] if files else []
        if not journals:
            raise refused(str(path), "it", "has no journal of a gateway", "the directory of gateway.journal")
        updates = sorted(_updates(journals))
        begins = [began_s for began_s, _ in updates]
        off = tuple(_off(path)) if path.is_dir() else ()
        steps = dict[int, list[tuple[str, ResponseLine]]]()
        for journal in journals:
            for place, line in _finished(journal, options):
                steps.setdefault(bisect_right(begins, line.arrived), []).append((place, line))
        for number, responses in sorted(steps.items()):
            plain = [each for each in responses if is_plain(each[1], off)]
            suite = [each for each in responses if not is_plain(each[1], off)]
            if plain and suite:
                over_s = max(ended_s(line) for _, line in responses)
                rest_s = updates[number][1] - over_s if number < len(updates) else None
                yield from _compared(number, suite, _seconds(plain), rest_s)
            else:
                yield from _step(number, responses)


def is_plain(line: ResponseLine, off: Sequence[tuple[float, float]]) -> bool:
    """Whether a response was generated without the suite. `off` has the times in which lending was off."""
    return not line.drafted and any(began_s <= line.arrived < end_s for began_s, end_s in off)


def off_times(lending: Sequence[LendingLine]) -> Iterator[tuple[float, float]]:
    """Yield the times in which lending was off, from beginning to end; the last may be infinite."""
    for change, after in zip_longest(lending, lending[1:]):
        if not change.enabled:
            yield change.at, inf if after is None else after.at


def ended_s(line: ResponseLine) -> float:
    """Return the Unix time of the last token of a response."""
    return line.stays[-1].ended if line.stays else line.at


def _off(directory: Path) -> Iterator[tuple[float, float]]:
    for journal in journals_in(directory):
        if journal.service == COORDINATOR:
            yield from off_times([line for line in journal.lines() if isinstance(line, LendingLine)])


def _seconds(responses: Sequence[tuple[str, ResponseLine]]) -> float:
    return max(ended_s(line) for _, line in responses) - min(line.arrived for _, line in responses)


def _updates(journals: list[JournalReader]) -> list[tuple[float, float]]:
    """
    Return when each version of the weights began to be installed, and when it was. Several gateways may install the
    same one in turn.
    """
    found = dict[int, tuple[float, float]]()
    for journal in journals:
        for line in journal.lines():
            if isinstance(line, UpdateLine) and line.done:
                began_s, at_s = found.get(line.version, (line.began, line.at))
                found[line.version] = min(line.began, began_s), max(line.at, at_s)
    return list(found.values())


def _finished(journal: JournalReader, options: ReadOptions) -> Iterator[tuple[str, ResponseLine]]:
    left_out = number = 0
    for line in journal.lines():
        if not isinstance(line, ResponseLine):
            continue
        number += 1
        if line.outcome is RequestOutcome.FINISHED and line.tokens > line.prefix:
            yield f"{journal.service} {journal.id}: response {number}", line
        else:
            left_out += 1
    if left_out:
        options.note(f"{left_out} requests to {journal.id} that did not finish were left out")
    if journal.cut:
        options.note(f"{journal.cut} is cut and was left out")


def _step(number: int, responses: list[tuple[str, ResponseLine]]) -> Iterator[Found]:
    """Yield a step that was rolled out once."""
    drafted = any(line.drafted for _, line in responses)
    yield from _responses(number, responses, is_timed=not drafted)
    yield FoundStep(
        place=responses[0][0],
        step=number,
        suite_rollout_s=round(_seconds(responses), 6) if drafted else None,
        began_s=min(line.arrived for _, line in responses),
        cap=_cap(responses),
    )


def _compared(
    number: int, responses: list[tuple[str, ResponseLine]], plain_s: float, rest_s: float | None
) -> Iterator[Found]:
    """
    Yield a step that was rolled out on both sides.

    Args:
        number: Number of the step.
        responses: Those with the suite.
        plain_s: Seconds of the rollout without it.
        rest_s: Seconds from the last response to the next weights; None at the end of the journal.
    """
    yield from _responses(number, responses, is_timed=False)
    yield FoundStep(
        place=responses[0][0],
        step=number,
        rollout_s=round(plain_s, 6),
        suite_rollout_s=round(_seconds(responses), 6),
        step_s=None if rest_s is None else round(plain_s + max(0.0, rest_s), 6),
        cap=_cap(responses),
    )


def _cap(responses: list[tuple[str, ResponseLine]]) -> int:
    return max(line.cap - line.prefix for _, line in responses)


def _responses(number: int, responses: list[tuple[str, ResponseLine]], *, is_timed: bool) -> Iterator[Found]:
    began_s = min(line.arrived for _, line in responses)
    for place, line in responses:
        yield FoundResponse(
            place=place,
            step=number,
            prompt=line.group,
            prompt_tokens=line.prompt + line.prefix,
            tokens=line.tokens - line.prefix,
            ends=line.finish is not FinishReason.LENGTH,
            after_s=round(line.arrived - began_s, 6),
            seconds=round(ended_s(line) - line.arrived, 6) if is_timed else None,
        )

"""
The journal of gateways: `gateway.journal`, tlt-journal/1 (tlt_common/journal; docs/journal.md).

A step begins with an update of the weights. A response belongs to the step in which it arrived.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from tlt_common.domain.response import FinishReason
from tlt_common.journal.files import SUFFIX, files_in
from tlt_common.journal.format import FORMAT
from tlt_common.journal.gateway_lines import RequestOutcome, ResponseLine, UpdateLine
from tlt_common.journal.reader import JournalReader, journals_in
from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, FoundStep, ReadOptions
from tlt_simulator.traces.values import refused

SERVICE = "gateway"


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
        steps = dict[int, list[tuple[str, ResponseLine]]]()
        for journal in journals:
            for place, line in _finished(journal, options):
                steps.setdefault(bisect_right(updates, line.arrived), []).append((place, line))
        for number, responses in sorted(steps.items()):
            yield from _step(number, responses)


def _updates(journals: list[JournalReader]) -> list[float]:
    """
    Return the time at which each version of the weights began to be installed. Several gateways may install the same
    one in turn.
    """
    began_s = dict[int, float]()
    for journal in journals:
        for line in journal.lines():
            if isinstance(line, UpdateLine) and line.done:
                began_s[line.version] = min(line.began, began_s.get(line.version, line.began))
    return list(began_s.values())


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
            seconds=round((line.stays[-1].ended if line.stays else line.at) - line.arrived, 6),
        )
    cap = max(line.cap - line.prefix for _, line in responses)
    yield FoundStep(place=responses[0][0], step=number, began_s=began_s, cap=cap)

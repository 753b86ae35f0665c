"""
ServeGen's offline batch traces: data/offline/trace_d.jsonl to trace_f.jsonl of alibaba/ServeGen (Apache-2.0), described
in the README.md beside them.

`request_id`, `type`, `input_length`, `output_length`, `duration` in milliseconds; a file is a batch task, in which
every request is a prompt of its own. Read as one step. Traces a to c have no lengths of responses and are refused.
"""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.logfile import LogNames, objects
from tlt_simulator.traces.units import UnitCheck

NAMES = LogNames(suffixes=(".jsonl",), called="trace_*.jsonl, a file per batch")
MAX_MS = 10**9


class ServeGenForm:
    """Reads ServeGen's batch traces."""

    name = "servegen"
    about = "ServeGen's offline batch traces (trace_d to trace_f): request_id, input_length, output_length, duration"
    tokens_field = "output_length"
    group_field = "request_id"

    def fits(self, look: FirstLook) -> bool:
        return {"request_id", "input_length"} <= look.first.keys()

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        options.note("every request counts as a separate prompt")
        for step, file in enumerate(NAMES.chosen(path, options.note), start=1):
            times, seen = list[tuple[float, int, str]](), -1
            for line in objects(file):
                if not line.has("output_length") and line.has("hash_ids"):
                    raise line.error("output_length", "traces with lengths of responses, as trace_d to trace_f")
                number = line.whole("request_id", most=10**12)
                if number <= seen:
                    raise line.error("request_id", f"more than {seen}, as requests are in order")
                seen, tokens = number, line.tokens("output_length")
                if line.has("duration"):
                    times.append((line.whole("duration", least=1, most=MAX_MS) / 1e3, tokens, line.place))
                elif times:
                    raise line.error("duration", "milliseconds, as in the lines before it")
                yield FoundResponse(
                    place=line.place,
                    step=step,
                    prompt=(step, number),
                    prompt_tokens=line.tokens("input_length"),
                    tokens=tokens,
                    ends=None,
                )
            UnitCheck().check(times)

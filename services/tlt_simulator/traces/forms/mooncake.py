"""
Mooncake's traces: JSON lines with `timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`.

Described in FAST25-release/README.md of kvcache-ai/Mooncake, and used by serving simulators and benchmarks. `hash_ids`
identify the blocks of 512 tokens of a prompt: requests with the same ids and length have the same prompt. There are no
steps: each file counts as one, in the order of a directory.
"""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.logfile import LogNames, objects
from tlt_simulator.traces.values import LineValues

NAMES = LogNames(suffixes=(".jsonl",), called="*.jsonl, a file per step")
MARKS = frozenset({"timestamp", "input_length", "output_length", "hash_ids"})
MAX_MS = 10**11


class MooncakeForm:
    """Reads Mooncake's traces."""

    name = "mooncake"
    about = "Mooncake's traces: JSON lines with timestamp (milliseconds), input_length, output_length, hash_ids"
    tokens_field = "output_length"
    group_field = "hash_ids"

    def fits(self, look: FirstLook) -> bool:
        return len(MARKS & look.first.keys()) >= 2 and "request_id" not in look.first

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        for step, file in enumerate(NAMES.chosen(path, options.note), start=1):
            began_ms = before_ms = None
            for line in objects(file):
                now_ms = line.whole("timestamp", most=MAX_MS)
                if before_ms is not None and now_ms < before_ms:
                    raise line.error(
                        "timestamp", f"at least {before_ms}, as in the line before it; all in milliseconds"
                    )
                before_ms, began_ms = now_ms, now_ms if began_ms is None else began_ms
                length = line.tokens("input_length")
                yield FoundResponse(
                    place=line.place,
                    step=step,
                    prompt=_prompt(line, length),
                    prompt_tokens=length,
                    tokens=line.tokens("output_length"),
                    ends=None,
                    after_s=(now_ms - began_ms) / 1e3,
                )


def _prompt(line: LineValues, length: int) -> str | None:
    """Return the identity of the prompt, or None if the line has none."""
    if not line.has("hash_ids"):
        return None
    blocks = line.values["hash_ids"]
    if isinstance(blocks, list) and all(type(one) is int for one in blocks):
        return f"{length} {blocks}" if blocks else None
    raise line.error("hash_ids", "a list of whole numbers")

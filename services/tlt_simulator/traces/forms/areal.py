"""
AReaL's trajectory dumps: DIR/VERSION/TASK.jsonl, a sample per line.

Written by `WorkflowExecutor._dump_trajectory` (areal/infra/workflow_executor.py): `task_id`, `sample_idx`, `seqlen`,
`prompt_len`, `version_rle` (of the tokens that were sampled, by the version of the policy), `prompt` and `completion`.
Texts are hashed. A directory VERSION is the step at whose weights the last token was sampled.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.logfile import children, objects, suffix
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

MARKS = frozenset({"task_id", "seqlen", "prompt_len"})
CALLED = "DIR with folders VERSION, which have TASK.jsonl, or one of those"


class ArealForm:
    """Reads AReaL's trajectory dumps."""

    name = "areal"
    about = "AReaL's dumps of trajectories (DIR/VERSION/TASK.jsonl): lengths, and which tokens were sampled"
    tokens_field = "version_rle"
    group_field = "task_id"

    def fits(self, look: FirstLook) -> bool:
        return look.first.keys() >= MARKS

    def first_of(self, directory: Path) -> Path | None:
        return next((file for _, file in _files(directory)), None)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:  # noqa: ARG002 - says all it knows
        files = list(_files(path)) if path.is_dir() else [(_step_of(path.parent), path)]
        if not files:
            raise refused(str(path), "it", "has no file of this form", CALLED)
        for step, file in files:
            for line in objects(file):
                yield _response(line, step)


def _files(directory: Path) -> Iterator[tuple[int, Path]]:
    inner = [folder for folder in children(directory, folders=True) if folder.name.isdecimal()]
    for folder in inner or [directory]:
        yield from ((_step_of(folder), file) for file in children(folder) if suffix(file) == ".jsonl")


def _step_of(folder: Path) -> int:
    return int(folder.name) if folder.name.isdecimal() and len(folder.name) < 10 else 0


def _response(line: LineValues, step: int) -> FoundResponse:
    prompt_tokens = line.tokens("prompt_len", least=0)
    length = line.tokens("seqlen", least=prompt_tokens + 1)
    runs: Any = line.values.get("version_rle")
    tokens = length - prompt_tokens
    if runs:
        try:
            tokens = sum(count for _, count in runs if type(count) is int and count > 0)
        except (TypeError, ValueError):
            tokens = 0
        if not 1 <= tokens <= min(length, MAX_TOKENS):
            raise line.error("version_rle", f"pairs of a version and a number of tokens, 1 to {length} altogether")
    task = line.identity("task_id")
    return FoundResponse(
        place=line.place,
        step=step,
        prompt=line.text("prompt") if line.has("prompt") else (step, task),
        group=(step, task),
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        ends=None,
    )

"""
prime-rl's traces: RUN_DIR/rollouts/step_N/train/{all,effective}/traces.jsonl, an episode per line, and those of later
versions, RUN_DIR/traces/stream/NNNNN.jsonl.zst.

Written by `FileMonitor.log_episodes` (src/prime_rl/monitors/file.py, 0.8.0): `Episode.to_record()` of verifiers
(verifiers/v1/episode.py and trace.py, 0.4.1). Read here: `group.id`, `task.key` or `task.hash` (hashed), and of each
trace its `calls`: `usage`, `time`, `finish_reason`. `all` is read if it is there: engines generated that, too, which no
batch took. A trace with several calls counts as one response with their tokens together. Texts and token ids in `nodes`
are not looked at.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, FoundStep, Identity, ReadOptions
from tlt_simulator.traces.logfile import children, objects, stem
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

FILE = "traces.jsonl"
SUBSETS = ("all", "effective")
STEP = re.compile(r"step_(\d+)")
STREAMED = re.compile(r"\d{1,9}\.jsonl(\.zst|\.gz)?")
"""Names in traces/stream of later versions. Each episode says its step, or else a file is one."""
MAX_TIME_S = 1e11
CALLED = f"RUN_DIR or a {FILE}: RUN_DIR/rollouts/step_N/train/{{all,effective}}/{FILE}"


class PrimeRlForm:
    """Reads prime-rl's traces."""

    name = "prime-rl"
    about = "prime-rl's traces (RUN_DIR/rollouts/step_N/train/all/traces.jsonl): tokens and times of each call"
    tokens_field = "traces.calls.usage.completion_tokens"
    group_field = "group"

    def fits(self, look: FirstLook) -> bool:
        return isinstance(look.first.get("traces"), list) and "task" in look.first

    def first_of(self, directory: Path) -> Path | None:
        return next((file for _, file in _files(directory)), None)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        files = _files(path) if path.is_dir() else [(_step_of(path), path)]
        if not files:
            raise refused(str(path), "it", "has no traces of training", CALLED)
        steps = dict[int, list[FoundResponse]]()
        for number, file in files:
            for one in _responses(file, number, options):
                steps.setdefault(one.step, []).append(one)
            if not STREAMED.fullmatch(file.name):
                yield from _steps(steps)
                steps.clear()
        yield from _steps(steps)


def _steps(steps: Mapping[int, list[FoundResponse]]) -> Iterator[Found]:
    """Yield the responses of steps, in order, with times since the first request of each."""
    for number in sorted(steps):
        found = sorted(steps[number], key=lambda one: one.after_s)
        began_s = found[0].after_s
        for one in found:
            yield _since(one, began_s)
        yield FoundStep(place=found[0].place, step=number, began_s=began_s)


def _files(directory: Path) -> list[tuple[int, Path]]:
    """Return the files of a run with their steps, in order."""
    for stream in (directory / "traces" / "stream", directory / "stream", directory):
        if stream.is_dir() and (parts := [file for file in children(stream) if STREAMED.fullmatch(file.name)]):
            return [(int(stem(file)), file) for file in parts]
    root = inner if (inner := directory / "rollouts").is_dir() else directory
    found = list[tuple[int, Path]]()
    for folder in children(root, folders=True):
        if match := STEP.fullmatch(folder.name):
            subsets = (folder / "train" / subset / FILE for subset in SUBSETS)
            found += [(int(match[1]), file) for file in subsets if file.is_file()][:1]
    found.sort()
    for (before, _), (step, file) in pairwise(found):
        if step == before:
            raise refused(str(file), "the step", "appears twice", f"{CALLED}, each step once")
    return found


def _step_of(path: Path) -> int:
    return next((int(match[1]) for part in reversed(path.parts) if (match := STEP.fullmatch(part))), 0)


def _since(one: FoundResponse, began_s: float) -> FoundResponse:
    return FoundResponse(
        place=one.place,
        step=one.step,
        prompt=one.prompt,
        group=one.group,
        prompt_tokens=one.prompt_tokens,
        tokens=one.tokens,
        ends=one.ends,
        after_s=round(one.after_s - began_s, 6),
        seconds=one.seconds,
    )


def _responses(path: Path, step_of_file: int, options: ReadOptions) -> Iterator[FoundResponse]:
    """Yield the responses of a file, with the times at which they were requested."""
    left_out = several = 0
    for line in objects(path):
        prompt, group = _names(line)
        step = line.whole("step") if line.has("step") else step_of_file
        for trace in line.objects("traces"):
            if trace.has("agent") and trace.object("agent").values.get("trainable") is False:
                continue  # of another model, such as a judge
            calls = [call for call in trace.objects("calls") if call.has("usage")]
            if not calls:
                left_out += 1
                continue
            several += len(calls) > 1
            yield _response(calls, step, prompt, group)
    if left_out:
        options.note("traces without a call that the engine answered were left out")
    if several:
        options.note("traces with several calls count as one response with the tokens of all, from the first prompt on")


def _names(line: LineValues) -> tuple[Identity | None, Identity | None]:
    """Return the identity of an episode's prompt and group."""
    task = line.object("task")
    group = line.object("group").text("id") if line.has("group") else None
    for field in ("key", "hash"):
        if task.has(field):
            return f"{_environment(line)}/{task.text(field)}", group
    if task.has("data"):
        return task.canonical("data"), group
    return group, group


def _environment(line: LineValues) -> str:
    values = line.object("env").values if line.has("env") else {}
    return str(values.get("name") or values.get("id") or "")


def _response(calls: list[LineValues], step: int, prompt: Identity | None, group: Identity | None) -> FoundResponse:
    usages = [call.object("usage") for call in calls]
    tokens = sum(usage.tokens("completion_tokens", least=0) for usage in usages)
    if not 1 <= tokens <= MAX_TOKENS:
        raise usages[0].error("completion_tokens", f"1 to {MAX_TOKENS} tokens, those of all calls together")
    cached = usages[0].tokens("cached_input_tokens", least=0) if usages[0].has("cached_input_tokens") else 0
    first, last = calls[0].object("time"), calls[-1].object("time")
    began_s, ended_s = first.seconds("start", most=MAX_TIME_S), last.seconds("end", most=MAX_TIME_S)
    if began_s == 0.0:
        raise first.error("start", "a Unix time in seconds")
    if ended_s < began_s:
        raise last.error("end", f"at least the start of the first call, {began_s!r}")
    finish = calls[-1].values.get("finish_reason")
    return FoundResponse(
        place=calls[0].place,
        step=step,
        prompt=prompt,
        group=group,
        prompt_tokens=usages[0].tokens("prompt_tokens", least=0) + cached,
        tokens=tokens,
        ends=None if finish is None else finish != "length",
        after_s=began_s,
        seconds=round(ended_s - began_s, 6),
    )

"""
Evaluation results of verifiers and of SkyRL.

verifiers writes results.jsonl (`vf-eval`, and prime-rl's evaluations): `example_id`, `token_usage` with `input_tokens`
and `output_tokens`, `is_truncated`, `timing`. SkyRL writes dumped_evals/global_step_N_evals/DATASET.jsonl
(skyrl/train/utils/trainer_utils.py, `dump_per_dataset_eval_results`): `input_prompt`, `output_response`, `stop_reason`;
texts, whose tokens are counted.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.forms.texts import counted
from tlt_simulator.traces.logfile import LogNames, children, objects, suffix
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

RESULTS = LogNames(suffixes=(".jsonl",), pattern="results.*", called="results.jsonl", others="(?!results).*")
STEP = re.compile(r"global_step_(\d+)_evals")
SUMMARY = "aggregated_results.jsonl"


class VerifiersForm:
    """Reads evaluation results of verifiers."""

    name = "verifiers"
    about = "results.jsonl of verifiers: token_usage of each rollout; a file is a step"
    tokens_field = "token_usage.output_tokens"
    group_field = "example_id"

    def fits(self, look: FirstLook) -> bool:
        return "example_id" in look.first and bool({"completion", "token_usage"} & look.first.keys())

    def first_of(self, directory: Path) -> Path | None:
        return RESULTS.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        for step, file in enumerate(RESULTS.chosen(path, options.note), start=1):
            for line in objects(file):
                usage = line.object("token_usage")
                yield FoundResponse(
                    place=line.place,
                    step=step,
                    prompt=line.identity("example_id"),
                    prompt_tokens=_tokens(usage, "input_tokens", least=0),
                    tokens=_tokens(usage, "output_tokens", least=1),
                    ends=not line.flag("is_truncated") if line.has("is_truncated") else None,
                )


def _tokens(usage: LineValues, field: str, *, least: int) -> int:
    """Return a number of tokens, which verifiers may write as 12.0."""
    value: Any = usage.values.get(field)
    if type(value) in {int, float} and least <= value <= MAX_TOKENS and value == int(value):
        return int(value)
    raise usage.error(field, f"a whole number of tokens from {least} to {MAX_TOKENS}")


class SkyRlForm:
    """Reads evaluation results of SkyRL."""

    name = "skyrl"
    about = "SkyRL's evaluations (dumped_evals/global_step_N_evals/*.jsonl), counted with your tokenizer"
    tokens_field = "output_response"
    group_field = "input_prompt"

    def fits(self, look: FirstLook) -> bool:
        return look.first.keys() >= {"input_prompt", "output_response"}

    def first_of(self, directory: Path) -> Path | None:
        return next((file for _, file in _evaluations(directory)), None)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        files = _evaluations(path) if path.is_dir() else [(_step_of(path.parent), path)]
        if not files:
            raise refused(str(path), "it", "has no file of this form", "dumped_evals, or global_step_N_evals in it")
        for step, file in files:
            texts = ((line, line.text("input_prompt"), line.text("output_response")) for line in objects(file))
            for line, prompt, prompt_tokens, tokens in counted(texts, options, "output_response"):
                yield FoundResponse(
                    place=line.place,
                    step=step,
                    prompt=prompt,
                    prompt_tokens=prompt_tokens,
                    tokens=tokens,
                    ends=line.text("stop_reason") != "length" if line.has("stop_reason") else None,
                    is_counted=True,
                )


def _evaluations(directory: Path) -> list[tuple[int, Path]]:
    folders = [folder for folder in children(directory, folders=True) if STEP.fullmatch(folder.name)]
    return [
        (_step_of(folder), file)
        for folder in folders or [directory]
        for file in children(folder)
        if suffix(file) == ".jsonl" and file.name != SUMMARY
    ]


def _step_of(folder: Path) -> int:
    match = STEP.fullmatch(folder.name)
    return int(match[1]) if match else 0

"""
verl's rollout dumps: `trainer.rollout_data_dir`, a file STEP.jsonl per step.

Written by `RayPPOTrainer._dump_generations` (verl/trainer/ppo/ray_trainer.py and v1/trainer_base.py, 0.9.1): `input`,
`output`, `gts`, `score`, `step`, and what the reward function adds. verl logs no lengths: `input` and `output` are
texts without special tokens, whose tokens are counted with a tokenizer that the user names. `uid`, which the v1 trainer
adds, is SAMPLE_ROLLOUT_OUTPUT. A `loss_mask` or `response_mask` among them says how many tokens were sampled.
"""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.forms.texts import counted
from tlt_simulator.traces.logfile import LogNames, objects, stem
from tlt_simulator.traces.values import LineValues

NAMES = LogNames(suffixes=(".jsonl",), pattern=r"\d+", called="STEP.jsonl, a file per step")
MASKS = ("response_mask", "loss_mask")
"""Of a response's tokens: 0 for what a tool returned."""
MARKS = frozenset({"output", "gts", "score"})


class VerlForm:
    """Reads verl's rollout dumps."""

    name = "verl"
    about = "verl's rollout dumps (trainer.rollout_data_dir): STEP.jsonl with texts, counted with your tokenizer"
    tokens_field = "output"
    group_field = "input"

    def fits(self, look: FirstLook) -> bool:
        return len(MARKS & look.first.keys()) >= 2 and "input" in look.first

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        for file in NAMES.chosen(path, options.note):
            for line, prompt, prompt_tokens, tokens in counted(_texts(file), options, "output"):
                yield FoundResponse(
                    place=line.place,
                    step=line.whole("step"),
                    prompt=prompt,
                    group=_group(line),
                    prompt_tokens=prompt_tokens,
                    tokens=_sampled(line) or tokens,
                    ends=None,
                    is_counted=_sampled(line) is None,
                )


def _texts(file: Path) -> Iterator[tuple[LineValues, str, str]]:
    number = stem(file)
    for line in objects(file):
        step = line.whole("step")
        if number.isdecimal() and step != int(number):
            raise line.error("step", f"{int(number)}, as in the name of the file")
        yield line, line.text("input"), line.text("output")


def _sampled(line: LineValues) -> int | None:
    """Return the number of sampled tokens, if the reward function passes on the mask."""
    return next((found for field in MASKS if (found := line.sampled(field)) is not None), None)


def _group(line: LineValues) -> str | None:
    """Return the identity of a sample's group, whose prompt may occur twice in a step."""
    return line.text("uid").rsplit("_", 2)[0] if line.has("uid") else None

"""
NeMo-RL's logs of training data: logger.log_dir/exp_N/train_data_stepN.jsonl, a sample per line.

Written by `log_batched_dict_as_jsonl` (nemo_rl/utils/logger.py; algorithms/grpo.py): lists of all samples become lines.
Read here: `input_lengths` (of prompt and response), `token_loss_mask` (1 for tokens that were sampled) and `token_ids`
(hashed, up to the first sampled token). Older versions have neither mask nor ids: the first of `generation_logprobs`
that is not 0 begins the response then.
"""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.logfile import LogNames, objects, stem
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

NAMES = LogNames(
    suffixes=(".jsonl",),
    pattern=r"train_data_step\d+",
    called="train_data_stepN.jsonl, a file per step",
    others=r"(?!train_data_step).*",
)
MASK, LOGPROBS = "token_loss_mask", "generation_logprobs"


class NemoRlForm:
    """Reads NeMo-RL's logs of training data."""

    name = "nemo-rl"
    about = "NeMo-RL's training data (train_data_stepN.jsonl): lengths, and masks of what was sampled"
    tokens_field = MASK
    group_field = "token_ids"

    def fits(self, look: FirstLook) -> bool:
        return "input_lengths" in look.first and bool({MASK, LOGPROBS} & look.first.keys())

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        for number, file in enumerate(NAMES.chosen(path, options.note), start=1):
            named = stem(file).rpartition("step")[2]
            step = int(named) if named.isdecimal() else number
            for line in objects(file):
                yield _response(line, step, options)


def _response(line: LineValues, step: int, options: ReadOptions) -> FoundResponse:
    length = line.tokens("input_lengths")
    if line.has(MASK):
        mask = line.values[MASK]
        sampled = LineValues(line.place, {MASK: mask[:length] if isinstance(mask, list) else mask}).sampled(MASK)
        first = next((place for place, one in enumerate(mask) if one), length)
    else:
        options.note("without token_loss_mask, all tokens from the first probability on count as generated")
        first, sampled = _first(line, length), None
    tokens = sampled or length - first
    if not 1 <= tokens <= MAX_TOKENS:
        raise refused(line.place, MASK if line.has(MASK) else LOGPROBS, "says that nothing was generated", "a response")
    return FoundResponse(
        place=line.place,
        step=step,
        prompt=_prompt(line, first),
        prompt_tokens=first,
        tokens=tokens,
        ends=None,
    )


def _first(line: LineValues, length: int) -> int:
    values = line.values.get(LOGPROBS)
    if not isinstance(values, list) or not all(isinstance(one, int | float) for one in values):
        raise line.error(LOGPROBS, f"a list of numbers, or {MASK}")
    return next((place for place, one in enumerate(values[:length]) if one), length)


def _prompt(line: LineValues, first: int) -> bytes | None:
    ids = line.values.get("token_ids")
    if not isinstance(ids, list):
        return None
    return blake2b(repr(ids[:first]).encode(), digest_size=16).digest()

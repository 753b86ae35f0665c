"""Requests of NeMo-RL's batches, and batches of responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tlt_common.client import FinishReason, LogprobKind, SamplingParams, TokenChunk
from tlt_common.errors import AbortedError, InvalidRequestError
from tlt_common.integrations.sampling import arguments_of

# B rows of a batch, S positions of its longest row

_READ = frozenset({"input_ids", "input_lengths", "stop_strings"})
_OF_IMAGES = frozenset({"token_type_ids", "mm_token_type_ids"})
"""Say which tokens stand for images; without images they say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRow:
    """One row of a batch: a prompt that gets one response."""

    prompt: tuple[int, ...]
    sampling: SamplingParams | None
    """None: the prompt fills the context, so that nothing is generated."""


def rows_of(
    data: Mapping[str, Any], config: Mapping[str, Any], *, greedy: bool, context_length: int
) -> list[GenerationRow]:
    """
    Return the rows of a batch.

    Args:
        data: NeMo-RL's GenerationDatumSpec: `input_ids` (B, S), padded on the right, `input_lengths` (B) and
            `stop_strings`, per row None, a string or a list of them.
        config: NeMo-RL's `policy.generation`.
        greedy: Whether to take the most probable token instead of sampling.
        context_length: Tokens that prompt and response have together at most.

    Raises:
        InvalidRequestError: The batch contains something other than text, is not padded on the right, or a parameter
            is not supported.
    """
    for name in data:
        if name not in _READ | _OF_IMAGES and _has_content(data[name]):
            raise InvalidRequestError(
                f"{name} is in the batch; accepted: {', '.join(sorted(_READ))}: only text is supported", field="data"
            )
    input_ids_BS, lengths = data["input_ids"], [int(length) for length in data["input_lengths"]]
    if input_ids_BS.ndim != 2 or input_ids_BS.shape[0] != len(lengths):
        raise InvalidRequestError(
            f"input_ids has the shape {tuple(input_ids_BS.shape)} and input_lengths {len(lengths)} rows; accepted: one "
            "row of input_ids for each length",
            field="input_ids",
        )
    stops = data.get("stop_strings") or [None] * len(lengths)
    rows = []
    for at, (ids, length, stop) in enumerate(zip(input_ids_BS.tolist(), lengths, stops, strict=True)):
        if length > len(ids) or any(token != config["_pad_token_id"] for token in ids[length:]):
            raise InvalidRequestError(
                f"row {at} of input_ids has {len(ids)} tokens and the length {length}; accepted: rows that are padded "
                f"on the right with {config['_pad_token_id']}",
                field="input_ids",
            )
        room = min(config["max_new_tokens"], context_length - length)
        sampling = sampling_of(config, stop, max_new_tokens=room, greedy=greedy) if room > 0 else None
        rows.append(GenerationRow(prompt=tuple(ids[:length]), sampling=sampling))
    return rows


def sampling_of(
    config: Mapping[str, Any], stop: str | Sequence[str] | None, *, max_new_tokens: int, greedy: bool
) -> SamplingParams:
    """
    Return sampling parameters.

    Args:
        config: NeMo-RL's `policy.generation`.
        stop: Stop strings of this row, which are added to those of the configuration.
        max_new_tokens: Limit of new tokens, above 0.
        greedy: Whether to take the most probable token instead of sampling.

    Raises:
        InvalidRequestError: A parameter is not supported or out of range; the message names it.
    """
    given = {
        "temperature": 0.0 if greedy else config["temperature"],
        "top_p": config["top_p"],
        "top_k": config["top_k"],
        "max_tokens": max_new_tokens,
        "stop_token_ids": config["stop_token_ids"],
        "stop": list(dict.fromkeys((*_strings(config["stop_strings"]), *_strings(stop)))),
        "ignore_eos": config.get("ignore_eos", False),
        "bad_words": config.get("bad_words"),
    }
    return SamplingParams(**arguments_of(given), logprobs=_kind_of(config, greedy=greedy))


def _kind_of(config: Mapping[str, Any], *, greedy: bool) -> LogprobKind:
    """
    Return what NeMo-RL expects logprobs to refer to, as vLLM's `logprobs_mode` defines it; vLLM's default is raw.

    With top-k or top-p, NeMo-RL truncates the distributions of its policy, too, before it compares them.
    """
    if (config["vllm_cfg"].get("logprobs_mode") or "raw_logprobs") == "raw_logprobs":
        return LogprobKind.RAW
    truncates = config["top_p"] < 1 or config["top_k"] not in (None, -1, 0)
    return LogprobKind.TRUNCATED if truncates and not greedy else LogprobKind.POLICY


def output_of(data: Any, responses: Sequence[TokenChunk | None], *, pad: int) -> Any:
    """
    Return NeMo-RL's GenerationOutputSpec, in the class of the batch.

    Args:
        data: The batch that was answered.
        responses: The response of each row, or None where none was requested.
        pad: Token that fills rows up, on the right.

    Returns:
        `output_ids` (B, S): prompts followed by their responses; `logprobs` (B, S), 0 at prompts and padding;
        `generation_lengths`, `unpadded_sequence_lengths` and `truncated` (B). A response without room is truncated.

    Raises:
        AbortedError: A response was aborted.
    """
    for response in responses:
        if response is not None and response.finish_reason is FinishReason.ABORT:
            raise AbortedError(f"request {response.request_id} was aborted")
    input_ids_BS = data["input_ids"]
    starts = [int(length) for length in data["input_lengths"]]
    counts = [len(response.token_ids) if response else 0 for response in responses]
    ends = [start + count for start, count in zip(starts, counts, strict=True)]
    shape = (len(starts), max([input_ids_BS.shape[1], *ends]))
    output_ids_BS = input_ids_BS.new_full(shape, pad)
    logprobs_BS = input_ids_BS.new_zeros(shape).float()
    output_ids_BS[:, : input_ids_BS.shape[1]] = input_ids_BS
    for row, (response, start, end) in enumerate(zip(responses, starts, ends, strict=True)):
        if response is not None:
            output_ids_BS[row, start:end] = output_ids_BS.new_tensor(response.token_ids)
            logprobs_BS[row, start:end] = logprobs_BS.new_tensor(response.logprobs)
    cut = [response is None or response.finish_reason is FinishReason.LENGTH for response in responses]
    return type(data)({
        "output_ids": output_ids_BS,
        "logprobs": logprobs_BS,
        "generation_lengths": input_ids_BS.new_tensor(counts).long(),
        "unpadded_sequence_lengths": input_ids_BS.new_tensor(ends).long(),
        "truncated": input_ids_BS.new_tensor(cut).bool(),
    })  # fmt: skip


def _strings(stop: str | Sequence[str] | None) -> Sequence[str]:
    return [stop] if isinstance(stop, str) else stop or ()


def _has_content(value: Any) -> bool:
    """Return whether a column says anything; NeMo-RL adds columns of None and of empty lists for text."""
    if isinstance(value, list | tuple):
        return any(one is not None and (not hasattr(one, "__len__") or len(one) > 0) for one in value)
    return value is not None

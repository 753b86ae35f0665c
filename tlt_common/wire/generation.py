"""Prompts and token chunks <-> tlt.common.v1."""

from array import array
from collections.abc import Sequence

from tlt_common._generated.tlt.common.v1 import common_pb2 as pb
from tlt_common.domain.bounds import MAX_STOP_STRINGS, MAX_TOKEN_IDS, require_count
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import MAX_STOP_TOKEN_IDS, LogprobKind, Prompt, SamplingParams, Speculation
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.convert import numbers_of, pair

_SPECULATION_TO_PB = numbers_of(Speculation, pb.Speculation.DESCRIPTOR)
_SPECULATION_FROM_PB = {pb.SPECULATION_UNSPECIFIED: Speculation.AUTO} | {
    value: key for key, value in _SPECULATION_TO_PB.items()
}
_LOGPROBS_TO_PB = numbers_of(LogprobKind, pb.LogprobKind.DESCRIPTOR)
_LOGPROBS_FROM_PB = {pb.LOGPROB_KIND_UNSPECIFIED: LogprobKind.POLICY} | {
    value: key for key, value in _LOGPROBS_TO_PB.items()
}
_FINISH_TO_PB = numbers_of(FinishReason, pb.FinishReason.DESCRIPTOR)
_FINISH_FROM_PB = {value: key for key, value in _FINISH_TO_PB.items()}

stats_to_pb, stats_from_pb = pair(ResponseStats, pb.ResponseStats)
_routed_to_pb, _routed_from_pb = pair(RoutedExperts, pb.RoutedExperts)


def sampling_to_pb(params: SamplingParams) -> pb.SamplingParams:
    return pb.SamplingParams(
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        min_p=params.min_p,
        max_new_tokens=params.max_new_tokens,
        stop_token_ids=params.stop_token_ids,
        stop=params.stop,
        ignore_eos=params.ignore_eos,
        seed=params.seed,
        frequency_penalty=params.frequency_penalty,
        presence_penalty=params.presence_penalty,
        repetition_penalty=params.repetition_penalty,
        min_new_tokens=params.min_new_tokens,
        logprobs=_LOGPROBS_TO_PB[params.logprobs],
    )


def sampling_from_pb(message: pb.SamplingParams) -> SamplingParams:
    """
    Decode sampling parameters; unset numbers get their defaults.

    Raises:
        InvalidRequestError: A number is out of range, or the kind of logprobs is unknown.
    """
    if message.logprobs not in _LOGPROBS_FROM_PB:
        raise InvalidRequestError(
            f"sampling.logprobs is {message.logprobs}; accepted: {', '.join(kind.value for kind in LogprobKind)}",
            field="sampling.logprobs",
        )
    # Before they are copied: a message has room for millions.
    require_count("sampling.stop_token_ids", len(message.stop_token_ids), most=MAX_STOP_TOKEN_IDS)
    require_count("sampling.stop", len(message.stop), most=MAX_STOP_STRINGS)
    return SamplingParams(
        temperature=message.temperature if message.HasField("temperature") else 1.0,
        top_p=message.top_p if message.HasField("top_p") else 1.0,
        top_k=message.top_k,
        min_p=message.min_p,
        max_new_tokens=message.max_new_tokens if message.HasField("max_new_tokens") else None,
        stop_token_ids=tuple(message.stop_token_ids),
        stop=tuple(message.stop),
        ignore_eos=message.ignore_eos,
        seed=message.seed if message.HasField("seed") else None,
        frequency_penalty=message.frequency_penalty,
        presence_penalty=message.presence_penalty,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else 1.0,
        min_new_tokens=message.min_new_tokens,
        logprobs=_LOGPROBS_FROM_PB[message.logprobs],
    )


def ids_from_pb(field: str, ids: Sequence[int]) -> tuple[int, ...]:
    """
    Decode token ids.

    Raises:
        InvalidRequestError: There are more than any context holds.
    """
    require_count(field, len(ids), most=MAX_TOKEN_IDS)
    return tuple(ids)


def prompt_to_pb(prompt: Prompt) -> pb.Prompt:
    return pb.Prompt(
        request_id=prompt.request_id,
        token_ids=prompt.token_ids,
        sampling=sampling_to_pb(prompt.sampling),
        speculation=_SPECULATION_TO_PB[prompt.speculation],
        no_capture=not prompt.capture,
        policy_version=prompt.policy_version,
        prefix_token_ids=prompt.prefix_token_ids,
        attempt=prompt.attempt,
        max_staleness=prompt.max_staleness,
        begun_version=prompt.begun_version,
        session_id=prompt.session_id,
        cache_salt=prompt.cache_salt,
        routed_experts_start=prompt.routed_experts_start,
        prompt_logprobs_start=prompt.prompt_logprobs_start,
    )


def prompt_from_pb(message: pb.Prompt, *, owner: str = "", cache_key: str = "", keep_key: str = "") -> Prompt:
    """
    Decode a prompt. The other fields are set by gateways and never accepted from clients.

    Raises:
        InvalidRequestError: A field is out of range, or the kind of speculation is unknown.
    """
    if message.speculation not in _SPECULATION_FROM_PB:
        raise InvalidRequestError(
            f"prompt.speculation is {message.speculation}; accepted: {', '.join(Speculation)}",
            field="prompt.speculation",
        )
    return Prompt(
        request_id=RequestId(message.request_id),
        token_ids=ids_from_pb("prompt.token_ids", message.token_ids),
        sampling=sampling_from_pb(message.sampling),
        speculation=_SPECULATION_FROM_PB[message.speculation],
        capture=not message.no_capture,
        policy_version=PolicyVersion(message.policy_version) if message.HasField("policy_version") else None,
        prefix_token_ids=ids_from_pb("prompt.prefix_token_ids", message.prefix_token_ids),
        attempt=message.attempt,
        max_staleness=message.max_staleness if message.HasField("max_staleness") else None,
        begun_version=PolicyVersion(message.begun_version) if message.HasField("begun_version") else None,
        session_id=message.session_id,
        cache_salt=message.cache_salt,
        routed_experts_start=message.routed_experts_start if message.HasField("routed_experts_start") else None,
        prompt_logprobs_start=message.prompt_logprobs_start if message.HasField("prompt_logprobs_start") else None,
        owner=owner,
        cache_key=cache_key,
        keep_key=keep_key,
    )


def chunk_to_pb(chunk: TokenChunk) -> pb.TokenChunk:
    return pb.TokenChunk(
        request_id=chunk.request_id,
        token_ids=chunk.token_ids,
        logprobs=chunk.logprobs,
        policy_versions=chunk.policy_versions,
        finish_reason=_FINISH_TO_PB[chunk.finish_reason] if chunk.finish_reason else pb.FINISH_REASON_UNSPECIFIED,
        stats=stats_to_pb(chunk.stats) if chunk.stats else None,
        rounds=chunk.rounds,
        matched_stop=chunk.matched_stop,
        routed_experts=_routed_to_pb(chunk.routed_experts) if chunk.routed_experts else None,
        prompt_logprobs=_prompt_logprobs_to_pb(chunk.prompt_logprobs) if chunk.prompt_logprobs else None,
    )


def _prompt_logprobs_to_pb(found: PromptLogprobs) -> pb.PromptLogprobs:
    return pb.PromptLogprobs(first=found.first, logprobs=found.logprobs)


def _prompt_logprobs_from_pb(message: pb.PromptLogprobs) -> PromptLogprobs:
    return PromptLogprobs(first=message.first, logprobs=array("f", message.logprobs))


def chunk_from_pb(message: pb.TokenChunk) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId(message.request_id),
        token_ids=tuple(message.token_ids),
        logprobs=tuple(message.logprobs),
        policy_versions=tuple(PolicyVersion(version) for version in message.policy_versions),
        finish_reason=_FINISH_FROM_PB.get(message.finish_reason),
        matched_stop=message.matched_stop,
        routed_experts=_routed_from_pb(message.routed_experts) if message.HasField("routed_experts") else None,
        prompt_logprobs=(
            _prompt_logprobs_from_pb(message.prompt_logprobs) if message.HasField("prompt_logprobs") else None
        ),
        stats=stats_from_pb(message.stats) if message.HasField("stats") else None,
        rounds=message.rounds,
    )

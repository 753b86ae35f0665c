"""Refuses to start engines with arms that cannot run. Pure."""

from collections.abc import Callable, Sequence

from tlt_common.domain.arm import Arm
from tlt_common.errors import ConfigError
from tlt_worker.capacity.graphs.batches import Allows

MIB = 2**20


def require_model(arms: Sequence[Arm], *, vocab: int, context_length: int, kv_tokens: int, queries: int = 0) -> None:
    """
    Check arms against the model, its KV cache, and the tokens that one pass of its block drafter computes.

    Raises:
        ConfigError: An arm cannot run; the message names it and the accepted arms.
    """
    for arm in arms:
        _require_model(arm, vocab=vocab, context_length=context_length, kv_tokens=kv_tokens, queries=queries)


def require_allowed(arms: Sequence[Arm], allows: Allows) -> None:
    """
    Check that thresholds allow every arm at some batch size.

    Raises:
        ConfigError: An arm is never allowed; the message names it.
    """
    for arm in arms:
        if not allows(arm, 1):
            raise _refused(
                f"engine.arms: engine.group_below_requests or engine.speculate_below_requests disable {arm.name!r} at "
                f"every batch size; accepted: limits of at least 2 for {arm.draft_tokens} tokens to verify, or arms "
                "without it"
            )


def require_fit(arms: Sequence[Arm], max_batch: Callable[[Arm], int], needs: Callable[[Arm], int], free: int) -> None:
    """
    Check that every arm fits into memory at a batch size of 1.

    Args:
        arms: Arms of the engine.
        max_batch: Return the largest batch size at which an arm fits.
        needs: Return the bytes that a round of an arm needs with one request.
        free: Bytes available to rounds.

    Raises:
        ConfigError: An arm does not fit; the message names it, its bytes and the available bytes.
    """
    for arm in arms:
        if max_batch(arm) < 1:
            raise _refused(
                f"engine.arms: {arm.name!r} needs {needs(arm) / MIB:.2f} MiB of workspace for one request, but only "
                f"{free / MIB:.2f} MiB are free; accepted: arms with fewer tokens to verify, a smaller "
                "engine.gpu_memory, or more devices"
            )


def _require_model(arm: Arm, *, vocab: int, context_length: int, kv_tokens: int, queries: int) -> None:
    if arm.topk > vocab:
        raise _refused(
            f"engine.arms: {arm.name!r} has {arm.topk} branches, but the vocabulary has {vocab} tokens; the "
            f"maximum is {vocab} branches"
        )
    if arm.draft_tokens >= context_length:
        raise _refused(
            f"engine.arms: {arm.name!r} verifies {arm.draft_tokens} tokens per round, but the context length is "
            f"{context_length}; accepted: fewer than {context_length} (engine.context_length)"
        )
    # SGLang reserves for the running round and the one launched after it (`get_alloc_reserve_per_decode`).
    reserved = 2 * max(arm.draft_tokens, arm.steps * arm.topk, queries if arm.is_block else 0)
    if reserved > kv_tokens:
        raise _refused(
            f"engine.arms: {arm.name!r} reserves {reserved} tokens of KV cache per request, but it holds {kv_tokens}; "
            "accepted: arms with fewer tokens, or a larger cache (engine.max_total_tokens)"
        )


def _refused(message: str) -> ConfigError:
    return ConfigError(message, field="engine.arms")

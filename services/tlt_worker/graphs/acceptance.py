"""Which arms an engine refuses to start with, and why; and which it has where none are named. Pure."""

from collections.abc import Callable, Sequence

from tlt_common.domain.strategy import (
    DEFAULT_ARMS,
    MOST_DRAFT_TOKENS,
    MOST_STEPS,
    MOST_TOPK,
    Arm,
    ngram,
    tree,
)
from tlt_common.errors import ConfigError
from tlt_worker.graphs.batches import Allows

MIB = 2**20

CPU_ARMS: tuple[Arm, ...] = (*DEFAULT_ARMS, ngram(5))
"""On the demo's task retrieval doubles the speed of a group of 8 before the first drafter is trained."""
CUDA_ARMS: tuple[Arm, ...] = (*DEFAULT_ARMS, tree(4, 4, 16), tree(6, 4, 32), tree(8, 8, 64), ngram(5))
"""From 4 to 64 tokens to verify, as the TLT paper's: a GPU has compute to spare at small batches. Not yet measured."""


def default_arms(device: str) -> tuple[Arm, ...]:
    """Return the arms of a device (`cuda` or `cpu`) for which none are named."""
    return CUDA_ARMS if device == "cuda" else CPU_ARMS


def require_arms(arms: Sequence[Arm], *, vocab: int, context_length: int, kv_tokens: int) -> None:
    """
    Check arms against a model and its key/value cache.

    Raises:
        ConfigError: There is none, one is named twice, or one cannot run; names it and what is accepted.
    """
    if not arms:
        raise _refused("arms is empty; accepted: at least one arm, for example off")
    twice = [arm.name for place, arm in enumerate(arms) if arm in arms[:place]]
    if twice:
        raise _refused(f"arms has {twice[0]!r} twice; accepted: each arm once")
    for arm in arms:
        _require_shape(arm)
        _require_model(arm, vocab=vocab, context_length=context_length, kv_tokens=kv_tokens)


def require_allowed(arms: Sequence[Arm], allows: Allows) -> None:
    """
    Check that thresholds leave every arm a batch size to run at.

    Raises:
        ConfigError: They do not; names the arm.
    """
    for arm in arms:
        if not allows(arm, 1):
            raise _refused(
                f"arms has {arm.name!r}, which group_below_requests or speculate_below_requests allow at no batch "
                f"size; accepted: limits of at least 2 for {arm.draft_tokens} tokens to verify, or arms without it"
            )


def require_fit(arms: Sequence[Arm], most: Callable[[Arm], int], needs: Callable[[Arm], int], free: int) -> None:
    """
    Check that every arm fits at a batch of one at least.

    Args:
        arms: The arms of the engine.
        most: Largest batch at which an arm fits.
        needs: Bytes a round of an arm takes with one request.
        free: Bytes rounds may take.

    Raises:
        ConfigError: One does not; names it, what it needs and what there is.
    """
    for arm in arms:
        if most(arm) < 1:
            raise _refused(
                f"arms: {arm.name!r} needs {needs(arm) / MIB:.2f} MiB of work space for one request, and there are "
                f"{free / MIB:.2f}; accepted: arms with fewer tokens to verify, a smaller gpu_memory, or more devices"
            )


def _require_shape(arm: Arm) -> None:
    for what, value, least, limit in (
        ("steps", arm.steps, 0, MOST_STEPS),
        ("branches", arm.topk, 1, MOST_TOPK),
        ("tokens to verify", arm.draft_tokens, 1, MOST_DRAFT_TOKENS),
    ):
        if not least <= value <= limit:
            raise _refused(f"arms: {arm.name!r} has {value} {what}; accepted: {least} to {limit}")


def _require_model(arm: Arm, *, vocab: int, context_length: int, kv_tokens: int) -> None:
    if arm.topk > vocab:
        raise _refused(
            f"arms: {arm.name!r} takes the {arm.topk} likeliest of {vocab} tokens of the vocabulary; accepted: at most "
            f"{vocab} branches"
        )
    if arm.draft_tokens >= context_length:
        raise _refused(
            f"arms: {arm.name!r} verifies {arm.draft_tokens} tokens a round, and the context has {context_length}; "
            f"accepted: fewer than {context_length} (context_length)"
        )
    # SGLang reserves for the round that runs and for the one launched behind it (`get_alloc_reserve_per_decode`).
    reserved = 2 * max(arm.draft_tokens, arm.steps * arm.topk)
    if reserved > kv_tokens:
        raise _refused(
            f"arms: {arm.name!r} reserves {reserved} tokens of cache per request, and it holds {kv_tokens}; accepted: "
            "arms with fewer tokens, or more cache (max_total_tokens)"
        )


def _refused(message: str) -> ConfigError:
    return ConfigError(message, field="arms")

"""Groups of responses, scored, in the form in which TRL's AsyncGRPOTrainer learns from them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from tlt_common.client import FinishReason, TokenChunk
from tlt_common.errors import AbortedError

Reward: TypeAlias = Callable[..., Sequence[float | None] | Awaitable[Sequence[float | None]]]
EPSILON = 1e-8
"""Keeps advantages finite in groups whose rewards are equal; TRL's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The responses to one prompt."""

    index: int
    """Position among the groups of the run."""
    row: Mapping[str, Any]
    prompt_ids: Sequence[int]
    responses: Sequence[TokenChunk]
    offset: int
    """Versions of the policy as published, minus those that the trainer counts."""

    @property
    def model_version(self) -> int:
        """The oldest version that generated a token, as the trainer counts."""
        return min(min(response.policy_versions) for response in self.responses) - self.offset


async def samples_of(group: Group, tokenizer: Any, reward_funcs: Sequence[Reward]) -> list[Any]:
    """
    Score a group; return a RolloutSample for each response, with its advantage within the group.

    Responses for which every reward function returns None have the advantage 0.

    Raises:
        AbortedError: A response was aborted.
    """
    import numpy as np
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    if any(response.finish_reason is FinishReason.ABORT for response in group.responses):
        raise AbortedError("a response was aborted; a group needs all of its responses")
    prompt = group.row["prompt"]
    texts = [tokenizer.decode(list(one.token_ids), skip_special_tokens=True) for one in group.responses]
    is_text = isinstance(prompt, str)
    completions: list[Any] = texts if is_text else [[{"role": "assistant", "content": text}] for text in texts]
    rewards = await _rewards(group, completions, reward_funcs)
    totals = np.array([sum(found) if (found := [r for r in row if r is not None]) else np.nan for row in rewards])
    scored = totals[~np.isnan(totals)]
    mean, std = (float(scored.mean()), float(scored.std())) if scored.size else (0.0, 0.0)
    advantages = np.nan_to_num((totals - mean) / (std + EPSILON))
    names = [getattr(function, "__name__", type(function).__name__) for function in reward_funcs]
    head = len(group.prompt_ids)
    return [
        RolloutSample(
            prompt=prompt,
            completion=completions[i],
            input_ids=np.array([*group.prompt_ids, *one.token_ids], dtype=np.int64),
            completion_mask=np.array([0] * head + [1] * len(one.token_ids), dtype=np.int64),
            old_log_probs=np.array([0.0] * head + list(one.logprobs), dtype=np.float32),
            advantage=float(advantages[i]),
            model_version=group.model_version,
            group_id=group.index,
            metrics={"reward": float(totals[i]), "reward_std": std}
            | {f"rewards/{name}": np.nan if r is None else r for name, r in zip(names, rewards[i], strict=True)},
        )
        for i, one in enumerate(group.responses)
    ]


async def _rewards(
    group: Group, completions: Sequence[Any], reward_funcs: Sequence[Reward]
) -> list[list[float | None]]:
    """Return the rewards by response, then by function."""
    count = len(group.responses)
    given = {name: [value] * count for name, value in group.row.items() if name != "prompt"}
    given |= {
        "prompts": [group.row["prompt"]] * count,
        "completions": list(completions),
        "completion_ids": [list(one.token_ids) for one in group.responses],
    }

    async def of(function: Any) -> Sequence[float | None]:
        found: Sequence[float | None] = await (
            function(**given) if iscoroutinefunction(function) else asyncio.to_thread(function, **given)
        )
        return found

    columns = await asyncio.gather(*(of(function) for function in reward_funcs))
    return [list(row) for row in zip(*columns, strict=True)]

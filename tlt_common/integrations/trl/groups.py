"""Scored groups of episodes, in the format of TRL's AsyncGRPOTrainer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tlt_common.integrations.trl.calls import result_of
from tlt_common.integrations.trl.episode import Episode
from tlt_common.integrations.trl.installed import sample_class, sample_of

Reward: TypeAlias = Callable[..., Sequence[float | None] | Awaitable[Sequence[float | None]]]
EPSILON = 1e-8
"""Keeps advantages finite in groups whose rewards are equal; TRL's own."""
NEWER = "rollout/versions_newer_mean"
"""Versions by which a sample's tokens are newer than its label, on average: TRL counts all as old as the oldest one."""
NO_COLUMNS = frozenset({"prompt", "completion", "completion_ids"})
"""Columns of the data set that reward functions get in another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeGroup:
    """The episodes of one row of the data set."""

    index: int
    """Position among the groups of the run."""
    row: Mapping[str, Any]
    episodes: Sequence[Episode]
    offset: int
    """Published policy version minus the trainer's."""

    @property
    def oldest_version(self) -> int:
        """The oldest version that sampled a token."""
        return min(episode.oldest_version for episode in self.episodes)

    @property
    def model_version(self) -> int:
        """The oldest version that sampled a token, by the trainer's count."""
        return self.oldest_version - self.offset


async def samples_of(
    group: EpisodeGroup, reward_funcs: Sequence[Reward], environments: Sequence[type] = ()
) -> list[Any]:
    """
    Score a group; return a RolloutSample for each episode, with its advantage within the group.

    Episodes without any reward have the advantage 0.

    Args:
        group: The group.
        reward_funcs: As for TRL's trainers.
        environments: Classes of environments that have rewards.
    """
    import numpy as np

    kind = sample_class()
    rewards = await _rewards(group, reward_funcs, environments)
    totals = np.array([sum(found) if (found := [r for r in row if r is not None]) else np.nan for row in rewards])
    scored = totals[~np.isnan(totals)]
    mean, std = (float(scored.mean()), float(scored.std())) if scored.size else (0.0, 0.0)
    advantages = np.nan_to_num((totals - mean) / (std + EPSILON))
    names = [getattr(one, "__name__", type(one).__name__) for one in (*reward_funcs, *environments)]
    uses_tools = any(episode.calls for episode in group.episodes)
    return [
        sample_of(
            kind,
            prompt=one.prompt,
            completion=one.completion,
            input_ids=np.array([*one.prompt_ids, *one.token_ids], dtype=np.int64),
            completion_mask=np.array([0] * len(one.prompt_ids) + list(one.sampled), dtype=np.int64),
            old_log_probs=np.array([0.0] * len(one.prompt_ids) + list(one.logprobs), dtype=np.float32),
            advantage=float(advantages[i]),
            model_version=group.model_version,
            group_id=group.index,
            metrics={"reward": float(totals[i]), "reward_std": std, NEWER: one.mean_version - group.oldest_version}
            | {f"rewards/{name}": np.nan if r is None else r for name, r in zip(names, rewards[i], strict=True)}
            | (_of_tools(one) if uses_tools else {}),
        )
        for i, one in enumerate(group.episodes)
    ]


def _of_tools(episode: Episode) -> dict[str, float]:
    """Return TRL's metrics about tools, under its names."""
    return {
        "tools/call_frequency": float(episode.calls),
        "tools/failure_frequency": episode.failures / max(1, episode.calls),
    }


async def _rewards(
    group: EpisodeGroup, reward_funcs: Sequence[Reward], environments: Sequence[type]
) -> list[list[float | None]]:
    """Return the rewards per episode, per function and class of environment."""
    count = len(group.episodes)
    given = {name: [value] * count for name, value in group.row.items() if name not in NO_COLUMNS}
    given |= {
        "prompts": [episode.prompt for episode in group.episodes],
        "completions": [episode.completion for episode in group.episodes],
        "completion_ids": [episode.sampled_ids for episode in group.episodes],
    }

    columns = await asyncio.gather(*(result_of(function, **given) for function in reward_funcs))
    owned = [[one.reward if one.environment is kind else None for one in group.episodes] for kind in environments]
    return [list(row) for row in zip(*columns, *owned, strict=True)]

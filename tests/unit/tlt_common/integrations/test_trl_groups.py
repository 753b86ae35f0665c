"""Samples of a group, as TRL's asynchronous trainer receives them."""

import asyncio
from typing import Any

import pytest

from tlt_common.integrations.trl.episode import Episode
from tlt_common.integrations.trl.groups import EpisodeGroup, samples_of

pytest.importorskip("trl")
pytestmark = pytest.mark.filterwarnings("ignore")  # TRL says that its asynchronous trainer may change


def episode(*versions: int) -> Episode:
    return Episode(
        prompt="3 7",
        prompt_ids=[3, 7],
        completion="1" * len(versions),
        token_ids=[1] * len(versions),
        logprobs=[-0.5] * len(versions),
        sampled=[True] * len(versions),
        oldest_version=min(versions),
        mean_version=sum(versions) / len(versions),
    )


def lengths(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [float(len(ids)) for ids in completion_ids]


def test_samples_say_by_how_much_their_tokens_are_newer_than_the_label_of_their_group() -> None:
    group = EpisodeGroup(index=5, row={"prompt": "3 7"}, episodes=[episode(7, 7, 8, 8), episode(8, 9)], offset=3)
    samples = asyncio.run(samples_of(group, [lengths]))
    assert [sample.model_version for sample in samples] == [4, 4]
    assert [sample.metrics["rollout/versions_newer_mean"] for sample in samples] == [0.5, 1.5]
    assert [sample.metrics["reward"] for sample in samples] == [4.0, 2.0]

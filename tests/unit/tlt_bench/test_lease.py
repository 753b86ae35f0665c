"""Figures of the lease benchmark, and a trainer that is granted and revoked leases."""

import asyncio
import re
from pathlib import Path

import pytest

from tlt_bench.lease import requests, taking_back
from tlt_bench.lease.percentiles import percentile
from tlt_bench.lease.servicer import Drafters
from tlt_bench.lease.taking_back import LeaseWaits
from tlt_common.config.loader import load
from tlt_common.errors import StaleVersionError
from tlt_common.wire import coordinator as wire
from tlt_trainer.config import TrainerConfig
from tlt_trainer.lease.learner_turn import Occupation

PAGE = (Path(__file__).parents[3] / "docs/results/services.md").read_text()


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0, 50, 99)] == [1.0, 2.0, 3.0]
    assert percentile(range(1, 1001), 99) == 990


def test_a_slow_revocation_is_named_by_what_was_done_and_every_figure_is_explained() -> None:
    waits = LeaseWaits(grants=[1.0, 2.0], idle=[0.5])
    for place, doing in enumerate(Occupation):
        waits.revokes[doing.value] = [1.0, 10.0 + place]
    found = taking_back.figures_of(waits)
    assert found.figures["revoke_ms_max_scoring"] == 10.0 + list(Occupation).index(Occupation.SCORING)
    assert found.figures["revoke_ms_p99"] == max(found.figures.values())
    found.merge(requests.figures_of({"training": [7.0, 9.0], "idle": [4.0, 5.0]}))
    assert (found.figures["preempt_added_ms_p50"], found.figures["preempt_added_ms_p99"]) == (3.0, 4.0)
    for figure in found.figures:
        assert f"`{re.sub('max_[a-z_]+$', 'max_DOING', figure)}`" in PAGE


def test_the_trainer_accepts_the_settings() -> None:
    places = {"socket": "/s", "model": "/m", "drafter_dir": "/d", "checkpoint_dir": "/c"}
    settings = [f"{key}={value}" for key, value in {**places, **taking_back.SETTINGS}.items()]
    config = load(TrainerConfig, "trainer", file=None, environment={}, settings=settings)
    assert (config.publish.first_gain, config.nice) == (0, 0)


def test_the_fleets_drafter_is_published_by_compare_and_swap() -> None:
    async def publish(base: int) -> int:
        request = wire.pb.PublishDrafterRequest(uri="x", base_version=base)
        return int((await drafters.PublishDrafter(request, None)).drafter_version)

    drafters = Drafters()  # type: ignore[abstract]
    drafters.overtake()
    assert drafters.version == 0
    assert asyncio.run(publish(0)) == 1
    with pytest.raises(StaleVersionError):
        asyncio.run(publish(0))
    drafters.overtake()
    assert drafters.version == 2

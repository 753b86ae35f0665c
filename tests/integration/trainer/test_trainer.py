"""A trainer with its peers: a real cache, a compare-and-swap coordinator, and a worker on its Unix socket."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import torch

from tests.integration.trainer.peers import Bench
from tests.unit.tlt_trainer.tiny import TinyPolicy, encoded_frames_of, tiny_policy
from tlt_common.drafter.meta import META_FILE, meta_of
from tlt_common.errors import InvalidRequestError, StaleEpochError, WeightsError
from tlt_trainer.drafter.files import from_files
from tlt_trainer.store.storage import read_uri


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture
async def bench(policy: TinyPolicy, tmp_path: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        made = Bench(policy.directory, tmp_path, stack)
        await made.open()
        yield made


async def test_a_leased_trainer_trains_and_publishes_and_stops_when_told(bench: Bench, policy: TinyPolicy) -> None:
    await bench.put(encoded_frames_of(policy, 200, seed=1))
    worker = await bench.worker()
    await worker.start(1)
    wish = await bench.coordinator.reached(1)
    files = read_uri(wish.uri, mark=META_FILE)
    assert from_files(files, policy.form)
    assert meta_of(files).base == 0
    assert meta_of(files).held_out_top1 >= 0.3  # else it would be slower than no drafter
    await bench.coordinator.reached(2)
    progress = await worker.preempt(1)
    assert not progress.training
    assert progress.held_out_top1 >= 0.3
    assert (await worker.progress()).steps == progress.steps


async def test_without_cache_and_coordinator_it_serves_and_waits(bench: Bench, policy: TinyPolicy) -> None:
    bench.cache_address = bench.coordinator_address = "127.0.0.1:1"
    worker = await bench.worker()
    await worker.start(1)
    assert not (await worker.progress()).training
    await worker.preempt(1)


async def test_old_epochs_bad_requests_and_bad_policies_are_refused_by_name(bench: Bench, tmp_path: Path) -> None:
    worker = await bench.worker()
    await worker.start(3)
    with pytest.raises(StaleEpochError):
        await worker.start(2)
    with pytest.raises(WeightsError, match="embed_tokens"):
        await worker.start(4, policy=str(tmp_path))
    for field, call in (
        ("epoch", worker.start(0)),
        ("ttl_s", worker.start(9, ttl_s=0.0)),
        ("policy_uri", worker.start(9, policy="s3://bucket/x")),
        ("policy_uri", worker.prepare("s3://bucket/x", 1)),
        ("policy_version", worker.prepare("/policy", -1)),
        ("accept_length", worker.start(9, accept_length=float("nan"))),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await call
        assert caught.value.field == field

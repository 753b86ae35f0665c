"""Callers that ask for much, and those beside them."""

import asyncio
from pathlib import Path

from tests.fakes.tokens import SECRETS, write
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import gateway, queued
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.request_ids import request_of
from tlt_gateway.config import GatewayConfig

FOUR = SamplingParams(max_new_tokens=4)


async def test_a_token_does_not_wait_behind_the_queue_of_another(tmp_path: Path) -> None:
    async with FakeWorker(max_running=2) as worker:
        worker.gate.clear()
        config = GatewayConfig(workers=(worker.address,), tokens=write(tmp_path / "tokens"))
        async with (
            gateway(config) as address,
            Client(address, token=SECRETS["trainer"]) as trainer,
            Client(address, token=SECRETS["reader"]) as reader,
            asyncio.TaskGroup() as group,
        ):
            await trainer.wait_ready(10)
            batch = group.create_task(trainer.batch([[1]], 40, FOUR, request_ids=["crowd"]))
            await queued(trainer, 38)
            single = group.create_task(reader.generate([2], FOUR, request_id="single"))
            await queued(trainer, 39)
            worker.gate.set()
            await asyncio.wait({batch, single})
    order = [request_of(prompt.request_id) for prompt in worker.prompts]
    assert len(order) == 41
    assert order.index("single") <= 4, "two run already, and at most two more start before its turn"  # type: ignore[arg-type]

"""`tlt drafter collect` against a gateway: what was interrupted continues, and each response is there once."""

import asyncio
import json
from pathlib import Path

import pytest

from countdown.model import CHECKPOINT
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.recorded_rollouts import RolloutFile
from tlt_local.collecting.collect import Collection, CollectionProgress, collect


async def test_an_interrupted_collection_continues(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    prompts, to = tmp_path / "prompts.jsonl", tmp_path / "responses.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt_token_ids": [number]}) for number in (10, 20, 30)))
    reports = list[CollectionProgress]()
    async with start(worker) as client:
        asked = Collection(
            model=CHECKPOINT,
            prompts=prompts,
            to=to,
            samples=2,
            max_new_tokens=4,
            at_once=1,
            endpoint=client.endpoint,
        )

        def stop(now: CollectionProgress) -> None:
            if now.done == 3:
                interrupted.cancel()

        interrupted = asyncio.create_task(collect(asked, say=lambda _: None, report=stop))
        with pytest.raises(asyncio.CancelledError):
            await interrupted
        found = await collect(asked, say=lambda _: None, report=reports.append)
    assert (found.done, found.wanted, found.new) == (6, 6, 3)
    assert [now.done for now in reports] == [4, 5, 6]
    collected = [(one.prompt, one.response) for one in RolloutFile(path=to, vocab_size=160)]
    assert sorted(collected) == sorted([((n,), (n + 1, n + 2, n + 3, n + 4)) for n in (10, 20, 30)] * 2)
    assert len(worker.prompts) == 6, "each response is generated once"
    assert not any(prompt.capture for prompt in worker.prompts)

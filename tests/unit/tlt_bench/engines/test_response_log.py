"""What is measured of responses that come in chunks."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence

from tlt_bench.engines.commands import ArmSwitch, Timing
from tlt_bench.engines.response_log import ResponseLog, cpu_s
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import ResponseStats, TokenChunk


async def chunks(counts: Sequence[int], ready: Sequence[asyncio.Event]) -> AsyncIterator[TokenChunk]:
    for place, count in enumerate(counts):
        await ready[place].wait()
        is_last = place == len(counts) - 1
        stats = ResponseStats(
            prompt_tokens=1, completion_tokens=sum(counts), rounds=len(counts), accepted_draft_tokens=0
        )
        yield TokenChunk(
            request_id=RequestId("r"),
            token_ids=(7,) * count,
            logprobs=(0.0,) * count,
            policy_versions=(),
            finish_reason=None,
            stats=stats if is_last else None,
        )


def played(counts: Sequence[Sequence[int]], switches: Sequence[ArmSwitch] = ()) -> tuple[Timing, list[str]]:
    """Answers whose chunks come round by round, all requests in each."""
    forced: list[str] = []

    async def play() -> Timing:
        log = ResponseLog(switches=switches, force=forced.append, pids=(os.getpid(),))
        ready = [asyncio.Event() for _ in range(max(map(len, counts)))]
        async with asyncio.TaskGroup() as parts:
            for place, each in enumerate(counts):
                track = log.track(Prompt(request_id=RequestId(str(place)), token_ids=(1,)), sum(each))
                parts.create_task(log.follow(track, chunks(each, ready)))
            for event in ready:
                event.set()
                for _ in range(10):
                    await asyncio.sleep(0)
        return log.timing()

    return asyncio.run(play()), forced


def test_the_window_is_where_all_requests_decode() -> None:
    timing, _ = played([[1, 2, 2, 2], [1, 3, 3, 3, 3]])
    assert timing.tokens == (7, 13)
    assert timing.rounds == (4, 5)
    assert timing.window_rounds == 3, "of the one that ends first, after its first token"
    assert timing.window_tokens in (12, 15), "three rounds of both; the last chunk of the second may be a moment late"
    assert timing.accept_length == (20 - 2) / (9 - 2)
    assert 0 < timing.window_s <= timing.seconds


def test_the_window_leaves_out_a_last_token_that_is_told_with_the_one_before() -> None:
    timing, _ = played([[1, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert timing.window_rounds == 2
    assert timing.at_s[2] <= timing.window_began_s + timing.window_s <= timing.at_s[3]


def test_an_arm_is_changed_at_the_token_that_was_named() -> None:
    timing, forced = played(
        [[1, 1, 1, 1, 1, 1]], [ArmSwitch(after_tokens=2, arm="chain-3"), ArmSwitch(after_tokens=5, arm="off")]
    )
    assert forced == ["chain-3", "off"]
    assert timing.at_s[1] <= timing.switched_s[0] <= timing.at_s[2]
    assert timing.at_s[4] <= timing.switched_s[1] <= timing.at_s[5]


def test_processor_time_rises_with_work() -> None:
    before = cpu_s([os.getpid()])
    sum(range(2_000_000))
    assert cpu_s([os.getpid()]) > before

"""What comes from the cache is decoded once; what cannot be decoded is refused, counted, and stops nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from tests.unit.tlt_trainer.tiny import TinyPolicy, encoded_frames_of
from tlt_common.codec import encode, read
from tlt_common.domain.hidden import ELEMENT_BYTES, SCALED, EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError
from tlt_trainer.data import frame_source
from tlt_trainer.data.frame import TORCH_DTYPES, decoded
from tlt_trainer.data.frame_pool import Defect, FramePool
from tlt_trainer.data.frame_source import CachedFrame, FrameSource

MIB = 2**20
ROUNDS = 3


class ScriptedCache:
    """Hands out the same blobs again and again."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        self.blobs = blobs
        self.taken = 0
        self.asked: list[tuple[int, Mapping[int, int]]] = []
        self.done = asyncio.Event()

    async def take(self, *, max_tokens: int, seed: int, newer_than: Mapping[int, int]) -> AsyncIterator[CachedFrame]:
        self.asked.append((max_tokens, newer_than))
        for cursor, blob in enumerate(self.blobs, 1000):
            yield CachedFrame(cursor, blob)
        self.taken += 1
        if self.taken == ROUNDS:
            self.done.set()


def unusable(reason: Defect = Defect.INVALID) -> float:
    return REGISTRY.get_sample_value("tlt_trainer_unusable_frames_total", {"reason": reason}) or 0.0


def with_payload(frame: EncodedFrame, ids: bytes = b"", states: bytes = b"") -> bytes:
    """The frame with the first bytes of its ids or states replaced."""
    blob = bytearray(frame.blob)
    ids_at = len(blob) - frame.header.payload_bytes
    blob[ids_at : ids_at + len(ids)] = ids
    states_at = ids_at + frame.header.token_id_bytes
    blob[states_at : states_at + len(states)] = states
    return bytes(blob)


def of_another_size(frame: EncodedFrame) -> bytes:
    """A frame of a model with twice the hidden size."""
    header = replace(frame.header, hidden_size=2 * frame.header.hidden_size)
    return encode(header, range(header.token_count + 1), [bytes(header.hidden_bytes)]).blob


async def taken(policy: TinyPolicy, blobs: Sequence[bytes]) -> tuple[FramePool, int]:
    """The pool, and how often new frames were announced, after `ROUNDS` of taking these blobs."""
    cache, pool, wanted, arrived = ScriptedCache(blobs), FramePool(budget_bytes=MIB), asyncio.Event(), []
    wanted.set()
    made = FrameSource(cache, pool, policy.form, wanted=wanted, arrived=lambda: arrived.append(1))
    running = asyncio.create_task(made.run(every_s=0.01, tokens=10_000))
    async with asyncio.timeout(60):
        await cache.done.wait()
        await asyncio.sleep(0.1)
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])
    return pool, len(arrived)


async def test_a_frame_is_decoded_once_however_often_it_comes(
    policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, frames = 0, encoded_frames_of(policy, 12)

    def counting(frame: EncodedFrame) -> object:
        nonlocal count
        count += 1
        return decoded(frame)

    monkeypatch.setattr(frame_source, "decoded", counting)
    pool, arrived = await taken(policy, [frame.blob for frame in frames])
    assert (count, arrived) == (12, 1)
    assert pool.training_tokens + pool.held_out_tokens == 12 * 64


@pytest.mark.looptime
async def test_frames_are_taken_by_cursor_and_only_as_many_as_are_trained_on(policy: TinyPolicy) -> None:
    cache = ScriptedCache([frame.blob for frame in encoded_frames_of(policy, 40)])
    pool, wanted = FramePool(budget_bytes=MIB), asyncio.Event()
    wanted.set()
    source = FrameSource(cache, pool, policy.form, wanted=wanted, arrived=lambda: None)
    running = asyncio.create_task(source.run(every_s=1.0, tokens=1000))
    await asyncio.sleep(10)
    assert cache.asked == [(1000, {})]
    pool.draw(320)
    await asyncio.sleep(10)
    pool.draw(2000)
    pool.draw(2000)
    await asyncio.sleep(10)
    assert cache.asked == [(1000, {}), (320, {0: 1039}), (1000, {0: 1039})]
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.looptime
async def test_a_lease_begins_with_all_that_arrived_before_it(policy: TinyPolicy) -> None:
    cache = ScriptedCache([frame.blob for frame in encoded_frames_of(policy, 40)])
    pool, wanted = FramePool(budget_bytes=MIB), asyncio.Event()
    wanted.set()
    source = FrameSource(cache, pool, policy.form, wanted=wanted, arrived=lambda: None)
    running = asyncio.create_task(source.run(every_s=1.0, tokens=1000))
    await asyncio.sleep(10)
    pool.draw(320)
    wanted.clear()
    await asyncio.sleep(10)
    wanted.set()
    await asyncio.sleep(10)
    assert cache.asked == [(1000, {}), (1000, {0: 1039})]
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.looptime
async def test_unseen_frames_are_looked_for_while_training_rests_also_with_a_full_pool(policy: TinyPolicy) -> None:
    cache = ScriptedCache([frame.blob for frame in encoded_frames_of(policy, 40)])
    pool, resting = FramePool(budget_bytes=MIB), asyncio.Event()
    source = FrameSource(cache, pool, policy.form, wanted=asyncio.Event(), arrived=lambda: None)
    looking = asyncio.create_task(source.look(resting, every_s=5.0, tokens=1000))
    await asyncio.sleep(10)
    assert cache.asked == []
    resting.set()
    await asyncio.sleep(11)
    assert cache.asked == [(1000, {}), (1000, {0: 1039}), (1000, {0: 1039})]
    assert pool.added_tokens == 40 * 64
    resting.clear()
    await asyncio.sleep(10)
    assert len(cache.asked) == 3
    looking.cancel()
    await asyncio.wait([looking])


async def test_broken_frames_are_refused_and_counted_and_the_others_are_used(policy: TinyPolicy) -> None:
    good, *others = encoded_frames_of(policy, 6)
    broken = (
        with_payload(others[0], ids=b"\xff\xff\xff\xff"),
        with_payload(others[1], ids=(48).to_bytes(4, "little")),
        with_payload(others[2], states=b"\xc0\x7f"),
        others[3].blob[:-1],
        of_another_size(others[4]),
        b"written by another version",
    )
    before = unusable()
    pool, arrived = await taken(policy, [*broken, good.blob])
    assert pool.holds(good.header)
    assert pool.training_tokens + pool.held_out_tokens == 64
    assert arrived == 1
    assert unusable() >= before + ROUNDS * len(broken)


async def test_frames_for_another_kind_of_drafter_are_refused_by_name_and_counted(
    policy: TinyPolicy, deep_policy: TinyPolicy
) -> None:
    (eagle,), (eagle3,) = encoded_frames_of(policy, 1), encoded_frames_of(deep_policy, 1, seed=1)
    for own, wanted, other in ((policy, eagle, eagle3), (deep_policy, eagle3, eagle)):
        before = unusable(Defect.OTHER_LAYERS)
        pool, arrived = await taken(own, [other.blob, wanted.blob])
        assert (pool.holds(wanted.header), pool.training_tokens + pool.held_out_tokens, arrived) == (True, 64, 1)
        assert unusable(Defect.OTHER_LAYERS) >= before + ROUNDS


@pytest.mark.parametrize(
    ("ids", "states", "field", "message"),
    [
        (b"\xfe\xff\xff\xff", b"", "frame.token_ids", "contains -2"),
        (b"", b"\xc0\x7f", "frame.hidden", "not finite"),
        (b"", b"\x80\xff", "frame.hidden", "not finite"),
    ],
)
def test_a_refusal_says_what_is_wrong(policy: TinyPolicy, ids: bytes, states: bytes, field: str, message: str) -> None:
    (frame,) = encoded_frames_of(policy, 1)
    with pytest.raises(InvalidRequestError, match=message) as caught:
        decoded(read(with_payload(frame, ids, states)))
    assert caught.value.field == field


@given(
    tokens=st.integers(1, 20), size=st.integers(1, 40), dtype=st.sampled_from(sorted(ELEMENT_BYTES.keys() - {SCALED}))
)
def test_decoding_gives_the_engines_tensors(tokens: int, size: int, dtype: str) -> None:
    states = torch.arange(tokens * size).to(TORCH_DTYPES[dtype]).view(tokens, size)
    header = FrameHeader(
        request_id=RequestId("r" * (size % 5)), policy_version=PolicyVersion(0), prompt_hash=7, start=0,
        token_count=tokens, hidden_size=size, dtype=dtype, prompt_tokens=1, response_tokens=tokens, finished=True,
    )  # fmt: skip
    frame = decoded(encode(header, range(tokens + 1), [states.view(torch.uint8).numpy().tobytes()]))
    assert torch.equal(frame.hidden, states)
    assert frame.hidden.dtype is TORCH_DTYPES[dtype]
    assert frame.token_ids.tolist() == list(range(tokens + 1))

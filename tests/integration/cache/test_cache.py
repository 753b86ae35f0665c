"""The cache as seen by its clients: real gRPC, real Redis, and an unreachable Redis."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from tlt_cache.config import CacheConfig
from tlt_cache.embedded import EmbeddedRedis
from tlt_cache.main import cache_service
from tlt_common import codec
from tlt_common.codec import encode
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import CacheUnavailableError, ConfigError, InvalidRequestError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import hidden as wire

MIB = 2**20
WAIT_S = 20.0


def frame(number: int) -> EncodedFrame:
    header = FrameHeader(
        request_id=RequestId(f"r{number}"),
        policy_version=PolicyVersion(1),
        prompt_hash=7,
        start=number,
        token_count=2,
        hidden_size=4,
        dtype="BF16",
        prompt_tokens=1,
        response_tokens=2,
        finished=True,
    )
    return encode(header, (1, 2, 3), [bytes(range(16))])


class Client:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = wire.Stub(channel)

    async def put(self, frames: Iterable[EncodedFrame]) -> tuple[int, int]:
        requests = [wire.put_request(one) for one in frames]
        with translated():
            response = await self.stub.Put(iter(requests), timeout=WAIT_S)
        return response.kept_count, response.dropped_count

    async def take(self, max_tokens: int = 1000) -> list[EncodedFrame]:
        request = wire.pb.TakeRequest(max_tokens=max_tokens, seed=1)
        with translated():
            return [wire.frame_from_pb(r) async for r in self.stub.Take(request, timeout=WAIT_S)]

    async def policies(self) -> AsyncIterator[CapturePolicy]:
        with translated():
            async for response in self.stub.WatchPolicy(wire.pb.WatchPolicyRequest(), timeout=WAIT_S):
                yield wire.policy_from_pb(response)

    async def until_enabled(self, *, enabled: bool) -> None:
        async for policy in self.policies():
            if policy.enabled == enabled:
                return


@pytest.fixture(autouse=True)
def often_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_cache.main.PROBE_EVERY_S", 0.05)


@asynccontextmanager
async def served(redis: str, run_dir: Path | None = None) -> AsyncIterator[Client]:
    config = CacheConfig(redis=redis, budget_bytes=MIB, run_dir=run_dir)
    async with cache_service(config) as port, connect(f"127.0.0.1:{port}") as channel:
        yield Client(channel)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    """A Redis that the cache knows only by URL, and that tests start, stop and restart."""
    process = EmbeddedRedis(tmp_path, max_bytes=64 * MIB)
    yield process
    await process.stop()


@pytest.mark.parametrize("kind", ["memory", "embedded"])
async def test_frames_go_in_and_come_out_unchanged(kind: str) -> None:
    frames = [frame(number) for number in range(30)]
    async with served(kind) as client:
        await client.until_enabled(enabled=True)
        assert await client.put(frames) == (30, 0)
        assert sorted(await client.take(), key=lambda one: one.header.start) == frames
        assert len(await client.take(max_tokens=10)) == 5
        usage = wire.usage_from_pb(await client.stub.GetUsage(wire.pb.GetUsageRequest(), timeout=WAIT_S))
        assert (usage.frames, usage.tokens, usage.budget_bytes) == (30, 60, MIB)


async def test_the_capture_policy_is_the_configured_one() -> None:
    async with served("memory") as client:
        await client.until_enabled(enabled=True)
        policy = await anext(client.policies())
        assert policy == CapturePolicy(enabled=True, sample_ratio=1.0, frame_tokens=256, state_bits=8)


async def test_without_redis_nothing_is_captured_and_it_comes_back_by_itself(redis: EmbeddedRedis) -> None:
    await redis.start()
    async with served(redis.url) as client:
        await client.until_enabled(enabled=True)
        assert await client.put([frame(1)]) == (1, 0)
        await redis.stop()
        with pytest.raises(CacheUnavailableError, match="Redis cannot be used"):
            await client.put([frame(2), frame(3)])
        with pytest.raises(CacheUnavailableError):
            await client.take()
        await client.until_enabled(enabled=False)
        await redis.start()
        await client.until_enabled(enabled=True)
        assert await client.put([frame(4)]) == (1, 0)
        assert [one.header.request_id for one in await client.take()] == ["r4"]


async def test_it_starts_without_redis_and_waits_for_it(redis: EmbeddedRedis) -> None:
    async with served(redis.url) as client:
        await client.until_enabled(enabled=False)
        with pytest.raises(CacheUnavailableError):
            await client.put([frame(1)])
        await redis.start()
        await client.until_enabled(enabled=True)
        assert await client.put([frame(1)]) == (1, 0)


async def test_bad_frames_and_requests_name_the_field() -> None:
    async with served("memory") as client:
        short = wire.pb.PutRequest(frame=frame(1).blob[:-1])
        lying = bytearray(frame(2).blob)
        lying[48:52] = (2**31 - 1).to_bytes(4, "little")
        strange = bytearray(frame(3).blob)
        strange[6] = 9
        for broken, reason in (
            (short, "bytes for 2 states of 4"),
            (wire.pb.PutRequest(frame=b"no frame" * 9), "begins with"),
            (wire.pb.PutRequest(frame=b""), "at least the"),
            (wire.pb.PutRequest(frame=frame(1).blob + bytes(2)), "bytes for 2 states of 4"),
            (wire.pb.PutRequest(frame=bytes(lying)), "2147483647 states"),
            (wire.pb.PutRequest(frame=bytes(strange)), "element type 9"),
        ):
            good = [wire.put_request(frame(number)) for number in (4, 5)]
            response = await client.stub.Put(iter([good[0], broken, good[1]]), timeout=WAIT_S)
            assert (response.kept_count, response.dropped_count, response.refused_count) == (2, 0, 1)
            assert reason in response.refused_reason
        with pytest.raises(InvalidRequestError) as caught:
            await client.take(max_tokens=0)
        assert caught.value.field == "max_tokens"


@pytest.mark.parametrize("kind", ["memory", "embedded"])
async def test_the_payload_is_never_opened(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = frame(1)
    broken = codec.read(good.blob[: -good.header.payload_bytes] + b"\xff" * good.header.payload_bytes)
    with pytest.raises(InvalidRequestError):
        codec.decode(broken.header, broken.blob)

    def refuse(*_: object) -> None:
        raise AssertionError("the cache decoded a payload")

    monkeypatch.setattr(codec, "decode", refuse)
    async with served(kind) as client:
        await client.until_enabled(enabled=True)
        assert await client.put([good, broken]) == (2, 0)
        assert sorted(one.blob for one in await client.take()) == sorted((good.blob, broken.blob))


async def test_the_embedded_redis_leaves_nothing_behind(tmp_path: Path) -> None:
    async with served("embedded", tmp_path) as client:
        await client.put([frame(1)])
        assert (tmp_path / "redis.sock").is_socket()
    assert not os.listdir(tmp_path)  # noqa: PTH208 - a glob would miss hidden files


async def test_a_second_cache_does_not_take_the_socket_of_the_first(tmp_path: Path) -> None:
    async with served("embedded", tmp_path) as client:
        with pytest.raises(ConfigError, match=r"another Redis listens on redis\.sock") as refused:
            async with served("embedded", tmp_path):
                pass
        assert refused.value.field == "run_dir"
        await client.put([frame(1)])
        assert [one.blob for one in await client.take()]
    (tmp_path / "redis.sock").touch()  # left by one that was killed
    async with served("embedded", tmp_path) as client:
        await client.put([frame(1)])


async def test_an_embedded_redis_that_dies_is_started_again(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path, max_bytes=64 * MIB)
    await redis.start()
    guard = asyncio.create_task(redis.run())
    try:
        async with served(redis.url) as client, asyncio.timeout(WAIT_S):
            await client.until_enabled(enabled=True)
            await redis.stop()
            await client.until_enabled(enabled=False)
            await client.until_enabled(enabled=True)
            assert await client.put([frame(1)]) == (1, 0)
    finally:
        guard.cancel()
        await redis.stop()


async def test_an_embedded_redis_that_is_stopped_is_killed_and_started_again(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path, max_bytes=64 * MIB, liveness_s=2.0)
    await redis.start()
    guard, former = asyncio.create_task(redis.run()), redis.pid
    try:
        async with served(redis.url) as client, asyncio.timeout(4 * WAIT_S):
            await client.until_enabled(enabled=True)
            await asyncio.sleep(4)
            assert redis.pid == former  # one that answers is left alone
            os.kill(former, signal.SIGSTOP)
            await client.until_enabled(enabled=False)
            await client.until_enabled(enabled=True)
            assert redis.pid != former
            assert await client.put([frame(1)]) == (1, 0)
    finally:
        guard.cancel()
        await redis.stop()


async def test_a_run_dir_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        async with served("embedded", tmp_path / ("x" * 90)):
            pass
    assert caught.value.field == "run_dir"

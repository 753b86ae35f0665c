"""One copy per machine: workers link the file of the gateway or of each other, over real connections."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import torch

from tests.fakes.eventually import eventually
from tests.integration.gateway.conftest import served
from tests.integration.worker.live_worker import Bench, working
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseEnd, ReleaseId, SpoolFile, StageOrder, TensorChunk, WrittenPiece
from tlt_common.errors import UnavailableError, WeightsUnreadableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire
from tlt_gateway.config import GatewayConfig

STATE = {f"layer.{index}": torch.full((1000,), float(index)) for index in range(5)}
RELEASE = ReleaseId(version=PolicyVersion(1), key="k")


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("weights-*/model.safetensors"))


def inodes(*benches: Bench) -> set[tuple[int, int]]:
    """Return device and inode of all weights the workers have."""
    found = [file.stat() for bench in benches for file in files(bench.run_dir / "weights")]
    return {(stat.st_dev, stat.st_ino) for stat in found}


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Bench, Bench]]:
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(working(Bench(tmp_path / str(index)))) for index in range(2)]
        yield one, other


async def test_workers_and_gateway_of_one_machine_hold_one_file(two: tuple[Bench, Bench], tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    config = GatewayConfig(workers=tuple(bench.address for bench in two), spool_dir=spool)
    async with served(config, workers=2) as client:
        await client.publish_weights(1, STATE)
        (file,) = files(spool)
        assert inodes(*two) == {(file.stat().st_dev, file.stat().st_ino)}
        before = file.read_bytes()
        await client.publish_weights(2, STATE)
        # The file of the release before is deleted in the background.
        await eventually(lambda: all(len(files(bench.run_dir / "weights")) == 1 for bench in two))
        assert len(inodes(*two)) == 1
        assert {bench.engine.policy_version for bench in two} == {2}
        assert file.read_bytes() == before, "what an earlier release holds is never written again"
    kept = [path for bench in two for path in files(bench.run_dir / "weights")]
    for path in files(spool):
        path.unlink()
    assert len({path.read_bytes() for path in kept}) == 1


async def test_workers_on_another_file_system_receive_a_copy_and_link_each_others(two: tuple[Bench, Bench]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        spool = Path(elsewhere)
        config = GatewayConfig(workers=tuple(bench.address for bench in two), spool_dir=spool)
        async with served(config, workers=2) as client:
            assert (await client.publish_weights(1, STATE)).workers == 2
            (file,) = files(spool)
            ((device, _),) = inodes(*two)
            assert device != file.stat().st_dev
            assert {path.read_bytes() for bench in two for path in files(bench.run_dir / "weights")} == {
                file.read_bytes()
            }


async def test_a_worker_that_joins_later_links_the_gateways_file(two: tuple[Bench, Bench], tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    config = GatewayConfig(workers=(two[0].address,), spool_dir=spool)
    async with served(config, workers=1) as client:
        await client.publish_weights(1, STATE)
        await eventually(lambda: bool(list(spool.glob("weights-*/release.json"))))
    # Another gateway with the same spool: it recovers the release and brings both workers forward.
    both = config.model_copy(update={"workers": (two[0].address, two[1].address)})
    async with served(both, workers=2):
        assert len(inodes(*two)) == 1
        assert two[1].engine.policy_version == 1


def tensor(number: int) -> TensorChunk:
    return TensorChunk(name=f"t{number}", dtype="F32", shape=(2,), offset_bytes=0, data=bytes([number + 1] * 8))


async def staged(bench: Bench, order: StageOrder, *parts: TensorChunk, wait: asyncio.Event | None = None) -> str:
    async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
        yield wire.stage_to_pb(order)
        for part in parts:
            yield wire.stage_to_pb(part)
        if wait is not None:
            await wait.wait()

    with translated():
        return (await wire.Stub(bench.channel).StageWeights(messages())).digest


async def test_a_worker_whose_linked_source_dies_halfway_begins_again_at_another(
    two: tuple[Bench, Bench], tmp_path: Path
) -> None:
    first, last = two
    async with working(Bench(tmp_path / "third")) as third:
        forever = asyncio.Event()
        order = StageOrder(release=RELEASE)
        feeding = asyncio.ensure_future(staged(first, order, tensor(0), tensor(1), wait=forever))
        await eventually(lambda: bool(inodes(first)))
        following = asyncio.ensure_future(
            staged(last, StageOrder(release=RELEASE, peers=(first.address, third.address)))
        )
        await eventually(lambda: inodes(last) == inodes(first))
        await staged(third, order, tensor(0), tensor(1), tensor(2))
        feeding.cancel()
        await asyncio.wait({feeding})
        await following
        assert inodes(last) == inodes(third)
        assert len(files(last.run_dir / "weights")) == 1


async def test_a_gateway_that_leaves_halfway_leaves_no_link_and_the_next_update_succeeds(
    two: tuple[Bench, Bench], tmp_path: Path
) -> None:
    first, last = two
    forever = asyncio.Event()
    feeding = asyncio.ensure_future(staged(first, StageOrder(release=RELEASE), tensor(0), wait=forever))
    await eventually(lambda: bool(inodes(first)))
    (source,) = files(first.run_dir / "weights")

    async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
        file = SpoolFile(path=str(source), device=source.stat().st_dev, inode=source.stat().st_ino)
        yield wire.stage_to_pb(StageOrder(release=RELEASE, file=file))
        yield wire.stage_to_pb(WrittenPiece(name="t0", dtype="F32", shape=(2,), offset_bytes=0, size_bytes=8))
        await forever.wait()

    linking = asyncio.ensure_future(wire.Stub(last.channel).StageWeights(messages()))
    await eventually(lambda: inodes(last) == inodes(first))
    for call in (linking, feeding):
        call.cancel()
    await asyncio.wait({linking, feeding})
    await eventually(lambda: not inodes(first, last))
    await staged(last, StageOrder(release=RELEASE), tensor(0))


@pytest.mark.parametrize("path", ["/etc/passwd", "symlink", "another"])
async def test_a_hostile_offer_is_refused_and_the_tensors_are_taken_instead(
    two: tuple[Bench, Bench], tmp_path: Path, path: str
) -> None:
    alias = tmp_path / "weights-x" / "model.safetensors"
    alias.parent.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    if path == "symlink":
        alias.symlink_to(secret)
    elif path == "another":
        alias.write_text("not the one offered")
    found = secret.stat()
    file = SpoolFile(path=path if path.startswith("/") else str(alias), device=found.st_dev, inode=found.st_ino)
    with pytest.raises(WeightsUnreadableError, match="cannot be linked"):
        await staged(two[0], StageOrder(release=RELEASE, file=file))
    assert not files(two[0].run_dir / "weights")
    await staged(two[0], StageOrder(release=RELEASE), tensor(0))
    assert secret.read_text() == "secret"


async def test_a_release_that_ends_before_its_file_is_complete_is_not_staged(two: tuple[Bench, Bench]) -> None:
    first, last = two
    forever = asyncio.Event()
    feeding = asyncio.ensure_future(staged(first, StageOrder(release=RELEASE), tensor(0), wait=forever))
    await eventually(lambda: bool(inodes(first)))
    (source,) = files(first.run_dir / "weights")

    async def messages(*parts: WrittenPiece | ReleaseEnd) -> AsyncIterator[wire.pb.StageWeightsRequest]:
        file = SpoolFile(path=str(source), device=source.stat().st_dev, inode=source.stat().st_ino)
        yield wire.stage_to_pb(StageOrder(release=RELEASE, file=file))
        for part in parts:
            yield wire.stage_to_pb(part)

    piece = WrittenPiece(name="t0", dtype="F32", shape=(2,), offset_bytes=0, size_bytes=8)
    with pytest.raises(WeightsUnreadableError, match="not complete"), translated():
        await wire.Stub(last.channel).StageWeights(messages(piece, ReleaseEnd(pieces=1, digest="tensors:0")))
    with pytest.raises(UnavailableError, match="of unknown pieces"), translated():
        await wire.Stub(last.channel).StageWeights(messages(piece))
    feeding.cancel()
    await asyncio.wait({feeding})

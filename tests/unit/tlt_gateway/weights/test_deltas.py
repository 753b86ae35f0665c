"""Workers that make changes whole."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import (
    InvalidRequestError,
    StaleVersionError,
    TltError,
    UnavailableError,
    WeightsError,
    WeightsUnreadableError,
)
from tlt_gateway.http.bodies.updates import no_tensors
from tlt_gateway.weights.deltas import folded, require_base
from tlt_gateway.weights.release import Release
from tlt_gateway.weights.release_store import ReleaseStore
from tlt_gateway.workers.worker_pool import WorkerPool

BASE = ReleaseId(version=PolicyVersion(3), key="k")
WHOLE = TensorChunk(name="a", dtype="BF16", shape=(1,), offset_bytes=0, data=b"ab")


@dataclass
class Folder:
    """A worker that yields whole weights, or fails before or after the first piece."""

    error: TltError | None = None
    begins: bool = True
    uris: list[str | None] = field(default_factory=list)

    async def fold(
        self, base: ReleaseId, uri: str | None, _changes: AsyncIterator[TensorChunk] | None
    ) -> AsyncGenerator[TensorChunk, None]:
        assert base == BASE
        self.uris.append(uri)
        if self.begins:
            yield WHOLE
        if self.error:
            raise self.error


async def whole(*folders: Folder) -> list[TensorChunk]:
    info = SimpleNamespace(served=SimpleNamespace(id=BASE))
    workers: list[Any] = [SimpleNamespace(answers=True, info=info, name="w", remote=folder) for folder in folders]
    pool = cast(WorkerPool, SimpleNamespace(workers=workers))
    async with folded(pool, cast(ReleaseStore, None), BASE, "/changes", no_tensors()) as tensors:
        return [chunk async for chunk in tensors]


@pytest.mark.parametrize("kind", [UnavailableError, WeightsUnreadableError])
async def test_another_worker_reads_what_one_cannot(kind: type[TltError]) -> None:
    first, second = Folder(kind("not here"), begins=False), Folder()
    assert await whole(first, second) == [WHOLE]
    assert [first.uris, second.uris] == [["/changes"], ["/changes"]]
    with pytest.raises(kind, match="not here"):
        await whole(first)


@pytest.mark.parametrize(
    "lost", [Folder(UnavailableError("gone")), Folder(WeightsError("of another shape"), begins=False)]
)
async def test_no_other_worker_is_asked_once_tensors_have_come_or_changes_do_not_fit(lost: Folder) -> None:
    second = Folder()
    with pytest.raises(TltError, match=r"gone|shape"):
        await whole(lost, second)
    assert not second.uris


async def test_without_a_worker_that_serves_the_base_nothing_is_folded() -> None:
    with pytest.raises(UnavailableError, match="no worker that serves 3"):
        await whole()


def test_another_base_is_refused_with_both_versions() -> None:
    require_base(PolicyVersion(3), Release(id=BASE))
    with pytest.raises(StaleVersionError, match="base_version is 2; served: 3"):
        require_base(PolicyVersion(2), Release(id=BASE))


def test_changes_of_an_adapter_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="an adapter upon 2"):
        require_base(PolicyVersion(3), Release(id=BASE, adapter_base=ReleaseId(version=PolicyVersion(2))))

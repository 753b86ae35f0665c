"""The policy's weights: staged while requests run, then switched atomically."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tlt_common.changes import Changes
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, ServedRelease, StageOrder, TensorChunk
from tlt_common.errors import (
    NotFoundError,
    StaleVersionError,
    UnavailableError,
    WeightsError,
    WeightsUnreadableError,
)
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.digest import contradict
from tlt_common.weights.experts import are_served_apart
from tlt_common.weights.tied_head import HEAD, is_tied
from tlt_worker.activity import Activity
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.base import Engine
from tlt_worker.weights.deltas import folded
from tlt_worker.weights.held_release import HeldRelease
from tlt_worker.weights.staging import Staging

log = get_logger(__name__)


class ServedWeights:
    """
    The served and the staged release. `make_way` is called before each switch, and `require_loadable`, which raises if
    the engine cannot load weights now, before a release is staged or switched to.

    At most one release is staged. A greater release replaces it and a smaller one is refused, so that the same one of
    two competing updates wins on every worker.
    """

    def __init__(
        self,
        engine: Engine,
        changes: Changes,
        activity: Activity,
        make_way: Callable[[], None],
        require_loadable: Callable[[], None] = lambda: None,
        *,
        model: Path,
        staging: Staging,
    ) -> None:
        self._engine = engine
        self._changes = changes
        self._activity = activity
        self._make_way = make_way
        self._model = model
        self._require_loadable = require_loadable
        self._staging = staging
        self._served = HeldRelease(ReleaseId(version=PolicyVersion(0)), directory=model)
        self._staged: HeldRelease | None = None
        self._switching: HeldRelease | None = None

    @property
    def version(self) -> PolicyVersion:
        return self._served.id.version

    @property
    def release(self) -> ServedRelease:
        """The served release."""
        return self._served.served

    @property
    def directory(self) -> Path:
        """Directory with the served embedding and head, which the trainer reads. All weights, without an adapter."""
        assert self._served.shared is not None  # noqa: S101 - what is served was staged
        return self._served.shared

    async def stage(self, order: StageOrder, tensors: AsyncIterator[TensorChunk]) -> tuple[int, str]:
        """
        Fetch and check weights; return their size in bytes and digest. Idempotent for a release that is staged, being
        staged or served.

        Raises:
            StaleVersionError: An equal or greater release is served or staged, or replaces this one meanwhile.
            WeightsError: The weights do not fit the model; the served ones stay.
            WeightsUnreadableError: This worker cannot read or store the weights.
        """
        if order.release == self._served.id:
            return 0, self._served.id.digest
        self._require_loadable()
        held = self._claimed(order)
        async with held.turn:
            held.require_wanted()
            if held.staged is None:
                await self._receive(held, order, tensors)
            staged = held.staged
        assert staged is not None  # noqa: S101 - set by `_receive`
        return staged.staged_bytes, staged.digest

    async def commit(self, release: ReleaseId) -> float:
        """
        Switch to the staged weights with requests in flight; return the pause in seconds. Idempotent.

        Raises:
            StaleVersionError: Another release, or none, is staged.
            WeightsError: The content does not match the release, or the engine rejected it; the previous weights are
                still served.
        """
        if release == self._served.id:
            return 0.0
        return await self._changes.do(lambda: self._switch(release))

    async def discard(self, release: ReleaseId) -> None:
        """Discard this release if it is staged or being staged."""
        if self._staged is not None and self._staged.id == release:
            self._staged.remove(f"release {release} was discarded")
            self._staged = None

    def held(self, release: ReleaseId) -> HeldRelease:
        """
        Return a release that peers may fetch.

        Raises:
            NotFoundError: The release is neither served nor staged here.
        """
        for held in (self._served, self._switching, self._staged, self._served.whole):
            if held is not None and held.id == release and release.version > 0:
                return held
        raise NotFoundError(f"release {release} is not held by this worker", field="release")

    async def fold(
        self, base: ReleaseId, uri: str | None, changes: AsyncIterator[TensorChunk]
    ) -> AsyncGenerator[TensorChunk, None]:
        """
        Yield the weights of a release, which must be served, with these changes or those in a directory applied.

        Raises:
            StaleVersionError: Another release is served.
            WeightsError: A change does not fit, or cannot be stored.
            WeightsUnreadableError: This worker cannot read the directory.
            UnavailableError: The changes did not arrive, or the release was replaced meanwhile.
        """
        self._require_folded(base)
        async with self._staging.changes(uri, changes) as directory:
            self._require_folded(base)
            ties_head, splits_experts = self._rules
            chunks = folded(self.directory, directory, without=HEAD if ties_head else "", splits_experts=splits_experts)
            try:
                while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                    yield chunk
            except OSError as error:  # deleted with its release
                raise UnavailableError(f"release {base} or its changes can no longer be read: {error}") from error

    @cached_property
    def _rules(self) -> tuple[bool, bool]:
        """Return whether the model ties its head, and whether stacked experts stand for individual ones."""
        config = read_config(self._model)
        return is_tied(config), are_served_apart(config)

    def _require_folded(self, base: ReleaseId) -> None:
        if base != self._served.id:
            raise StaleVersionError(
                f"base_version is {base.version}; served: {self._served.id}", field="header.base_version"
            )

    def close(self) -> None:
        """Delete all copies made by this worker."""
        for held in (self._served, self._switching, self._staged, self._served.whole):
            if held is not None:
                held.remove("the worker is shutting down")

    def _claimed(self, order: StageOrder) -> HeldRelease:
        """Return the staged release if the order names it; otherwise replace it."""
        self._require_newer(order)
        staged = self._staged
        if staged is not None and staged.id == order.release:
            return staged
        if staged is not None:
            if staged.id > order.release:
                raise StaleVersionError(
                    f"release {order.release} was overtaken by {staged.id}, which is being staged", field="release"
                )
            staged.remove(f"release {staged.id} was overtaken by {order.release}")
        self._staged = self._staging.begin(order, self._served.whole)
        return self._staged

    async def _receive(self, held: HeldRelease, order: StageOrder, tensors: AsyncIterator[TensorChunk]) -> None:
        keep = False
        try:
            async with held.receiving.until_ended():
                await self._staging.receive(held, order, tensors)
            held.require_wanted()
            self._require_newer(order)  # a commit may have finished meanwhile
            keep = True
        except (TimeoutError, WeightsError) as error:
            held.require_wanted()
            # What arrived from peers is kept: the gateway provides the rest.
            keep = bool(order.peers) and isinstance(error, WeightsUnreadableError)
            raise
        finally:
            if not keep:
                held.remove(f"release {held.id} could not be staged")
                if self._staged is held:
                    self._staged = None

    async def _switch(self, release: ReleaseId) -> float:
        if release == self._served.id:  # the same commit, repeated while the first one ran
            return 0.0
        self._require_loadable()
        staged = self._staged
        if staged is None or staged.id != release or staged.directory is None:
            held = "none" if staged is None else str(staged.id)
            raise StaleVersionError(f"release is {release}, staged is {held}; stage it first", field="release")
        self._require_base(staged.base)
        if staged.merged_into is not None:
            self._require_whole(staged.merged_into.id)
        if contradict(release.digest, staged.id.digest):
            raise WeightsError(
                f"release {release} has digest {release.digest}; this worker staged {staged.id.digest}", field="release"
            )
        self._staged, self._switching = None, staged
        self._make_way()
        try:
            with self._activity.update():
                pause_s = await self._engine.load_weights(staged.directory, release.version)
                previous, self._served = self._served, staged
        except BaseException:
            staged.remove(f"release {release} could not be loaded")
            raise
        finally:
            self._switching = None
        # The digest of the update stands for the release in the whole fleet.
        staged.id = replace(staged.id, digest=release.digest or staged.id.digest)
        for old in {previous, previous.whole} - {staged.whole}:
            old.remove(f"release {old.id} was replaced by {release}")
        metrics.WORKER_POLICY_VERSION.set(release.version)
        metrics.WORKER_PAUSE_SECONDS.labels(cause="weights").observe(pause_s)
        log.info("weights_switched", policy_version=release.version, key=release.key, pause_s=round(pause_s, 4))
        return pause_s

    def _require_base(self, base: ReleaseId | None) -> None:
        if base is not None and base != self._served.id:
            raise StaleVersionError(
                f"the weights are changes of {base}; served: {self._served.id}", field="header.base_version"
            )

    def _require_whole(self, wanted: ReleaseId) -> None:
        if wanted != (whole := self._served.whole.id):
            raise StaleVersionError(
                f"the adapter is to be merged into release {wanted}; this worker has {whole}", field="adapter_base"
            )

    def _require_newer(self, order: StageOrder) -> None:
        self._require_base(order.base)
        if order.adapter_base is not None:
            self._require_whole(order.adapter_base)
        release = order.release
        served = max(held.id for held in (self._served, self._switching) if held is not None)
        if release > served and release.version == served.version and not order.joining:
            raise StaleVersionError(
                f"release {release} is stale: {served}, of the same version, is already served", field="release"
            )
        if release <= served:
            raise StaleVersionError(
                f"policy_version is {release.version}; accepted: above {served.version}, the served version",
                field="policy_version",
            )

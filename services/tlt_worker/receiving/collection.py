"""Tensors that arrive in several calls, until they are a whole checkpoint."""

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from pathlib import Path

from tlt_common.checkpoint import pieces_in
from tlt_common.domain.transfer import Collected
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsUnreadableError
from tlt_common.spool_lease import SpoolLease
from tlt_worker.engine.checkpoints.policy import read_headers_of
from tlt_worker.receiving.model_tensors import ModelTensors


class Collection:
    """
    A directory with one safetensors file per call. Methods block: call them in a thread.

    A tensor that has arrived already begins a new update: what an earlier one left is deleted.
    """

    def __init__(self, parent: Path, model: Path) -> None:
        self._parent = parent
        self._model = model
        self._lease: SpoolLease | None = None
        self._names: set[str] = set()
        self._numbers = count()

    @property
    def is_empty(self) -> bool:
        """Whether no tensor is held."""
        return not self._names

    @property
    def progress(self) -> Collected:
        """How much of an update is held."""
        return self._tensors.progress(self._names) if self._names else Collected()

    def next_file(self) -> Path:
        """
        Return the path at which the tensors of a call are to be written, before `add`.

        Raises:
            WeightsUnreadableError: The directory cannot be created.
        """
        if self._lease is None:
            try:
                self._lease = SpoolLease.create(self._parent)
            except OSError as error:
                raise WeightsUnreadableError(f"cannot store weights in {self._parent}: {error}") from error
        return self._lease.directory / f"part-{next(self._numbers):06}.safetensors"

    def add(self, file: Path) -> Collected:
        """
        Add the tensors of a file, written at `next_file`.

        Raises:
            WeightsError: A tensor does not fit the model. Nothing is held then.
        """
        try:
            found = read_headers_of(file)
            self._tensors.check(found)
        except BaseException:
            self.drop()
            raise
        if self._names & found.keys():
            for other in file.parent.glob("*.safetensors"):
                if other != file:
                    other.unlink()
            self._names.clear()
        self._names |= found.keys()
        return self.progress

    def chunks(self) -> Iterator[TensorChunk]:
        """Yield what is held, in pieces."""
        if self._lease is not None:
            for piece in pieces_in(self._lease.directory):
                yield piece.read()

    def drop(self) -> Collected:
        """Delete what is held; return what it was."""
        held = self.progress
        self._names.clear()
        if self._lease is not None:
            self._lease.remove()
            self._lease = None
        return held

    @cached_property
    def _tensors(self) -> ModelTensors:
        return ModelTensors.of(self._model)

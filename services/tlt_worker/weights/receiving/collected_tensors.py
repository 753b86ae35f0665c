"""Tensors that arrive in several calls, collected until they form a whole checkpoint or all changes of one."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import count
from pathlib import Path

from tlt_common.domain.transfer import ChangesPart, Collected
from tlt_common.domain.weights import TensorChunk, plain_name
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.checkpoint import entries_in, pieces_in
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.safetensors_file import entries_of
from tlt_common.weights.tied_head import HEAD
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader, read_headers_of
from tlt_worker.checkpoints.values import require_equal


class CollectedTensors:
    """
    A directory with one safetensors file per call. Methods block: call them in a thread.

    A repeated tensor starts a new update and deletes the remains of an earlier one. Changes arrive in numbered parts
    instead, since their number of tensors is not known; part 0 starts over.

    Args:
        parent: Parent of the directory.
        model: The model's directory, which defines the tensors of an update.
        served: Returns the directory of the served weights.
    """

    def __init__(self, parent: Path, model: Path, served: Callable[[], Path]) -> None:
        self._parent = parent
        self._model = model
        self._served = served
        self._locked: LockedDirectory | None = None
        self._names: set[str] = set()
        self._numbers = count()
        self._following: ChangesPart | None = None
        """The part that is to follow, if changes are held."""
        self._head_may_follow = False
        """Whether the last update was complete without a tied head, which the trainer may send after the others."""

    @property
    def is_empty(self) -> bool:
        """Whether no tensors are held."""
        return not self._names

    @property
    def progress(self) -> Collected:
        """Progress of the held update."""
        if self._following is not None:
            return Collected(parts=self._following.number)
        if not self._names:
            return Collected()
        required = self._tensors.required
        missing = sorted(required.difference(self._names))
        return Collected(
            tensors=len(required) - len(missing), missing=len(missing), first_missing=missing[0] if missing else ""
        )

    def next_file(self, part: ChangesPart | None) -> Path:
        """
        Return the path to write a call's tensors to, before `add`. Tensors of another update are deleted.

        Args:
            part: The part of the changes; None for whole weights.

        Raises:
            WeightsError: The part is out of order.
            WeightsUnreadableError: The directory cannot be created.
        """
        if part is None:
            if self._following is not None:
                self.drop()
        elif part.number == 0:
            self.drop()
        else:
            self._require(part)
        if self._locked is None:
            try:
                self._locked = LockedDirectory.create(self._parent)
            except OSError as error:
                raise WeightsUnreadableError(f"cannot store weights in {self._parent}: {error}") from error
        return self._locked.directory / f"part-{next(self._numbers):06}.safetensors"

    def add(self, file: Path, part: ChangesPart | None = None) -> Collected:
        """
        Add the tensors of a file, written at `next_file` for the same part. Names may have wrappers' prefixes, and
        experts may be stacked.

        Raises:
            WeightsError: A tensor does not fit the model, or was changed by an earlier part. All held tensors are
                deleted.
        """
        try:
            found = _plainly_named(file)
            if part is not None:
                return self._add_changes(found.keys(), part)
            found = dict(self._tensors.as_served(found))
            self._tensors.require_known(found)
            if found.keys() == {HEAD} and self._is_late(file):
                return self.progress
        except BaseException:
            self.drop()
            raise
        if self._names & found.keys():
            for other in file.parent.glob("*.safetensors"):
                if other != file:
                    other.unlink()
            self._names.clear()
        self._names |= found.keys()
        progress = self.progress
        self._head_may_follow = progress.is_complete and self._tensors.is_tied and HEAD not in self._names
        return progress

    def _add_changes(self, names: AbstractSet[str], part: ChangesPart) -> Collected:
        if twice := sorted(self._names & names):
            raise WeightsError(f"tensor {twice[0]} was sent in an earlier part; send each tensor once")
        self._names |= names
        self._following = part.next
        return self.progress

    def _require(self, following: ChangesPart | None) -> None:
        if following == self._following:
            return
        held = "none" if self._following is None else f"{self._following.number}, upon {self._following.base}"
        wanted = "none" if following is None else f"{following.number}, upon {following.base}"
        self.drop()
        raise WeightsError(f"parts of changes held: {held}; required: {wanted}. Restart with part 0", field="part")

    def chunks(self, following: ChangesPart | None = None) -> Iterator[TensorChunk]:
        """
        Yield the held tensors in pieces, under the trainer's names.

        Args:
            following: The part of changes that would come next; None for whole weights.

        Raises:
            WeightsError: Other tensors are held, which are deleted.
        """
        self._require(following)
        if self._locked is not None:
            for piece in pieces_in(self._locked.directory):
                yield piece.read()

    def drop(self) -> Collected:
        """Delete the held tensors; return a description of them."""
        held = self.progress
        self._names.clear()
        self._following = None
        if self._locked is not None:
            self._locked.remove()
            self._locked = None
        return held

    def _is_late(self, file: Path) -> bool:
        """
        Return whether a tied head belongs to the update that was completed before it arrived. It is deleted then.

        Raises:
            WeightsError: It differs from the embedding of that update, which is served.
        """
        if not (self._head_may_follow and self.is_empty):
            return False
        self._head_may_follow = False
        served = {entry.name: entry for entry in entries_in(self._served())}
        embedding = self._tensors.embedding
        if embedding is None or embedding not in served:
            raise WeightsError(
                f"{HEAD} was sent without an embedding to compare it with; config.json ties it: do not send it"
            )
        (head,) = entries_of(file)
        require_equal(head, served[embedding])
        file.unlink()
        return True

    @cached_property
    def _tensors(self) -> ModelTensors:
        return ModelTensors.of(self._model)


def _plainly_named(file: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of a call's tensors by plain name.

    Raises:
        WeightsError: The file is damaged, or two tensors have the same plain name.
    """
    found: dict[str, TensorHeader] = {}
    for name, header in read_headers_of(file).items():
        if (plain := plain_name(name)) in found:
            raise WeightsError(f"tensor {plain} was sent twice, once as {name}; send it once")
        found[plain] = header
    return found

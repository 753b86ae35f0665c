"""A base checkpoint with an adapter: a directory with links to both, which the engine loads like any other weights."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tlt_common.errors import WeightsUnreadableError
from tlt_common.weights.adapter import Adapter, Change
from tlt_common.weights.checkpoint import entries_in, read_tensors
from tlt_common.weights.experts import are_served_apart, entries_apart
from tlt_common.weights.files import weight_files
from tlt_common.weights.layout import FILE_NAME
from tlt_common.weights.tied_head import EMBEDDING, HEAD, is_tied

if TYPE_CHECKING:
    from torch import Tensor

_BASE = "base"
_ADAPTER = "adapter"
_SHARED = "shared"
_TRANSPOSED = frozenset({"gpt_oss", "llama4", "llama4_text"})
"""`model_type` of the families whose stacks of experts are [experts, in, out] in transformers (`is_transposed`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedCheckpoint:
    """Weights that are a base and an adapter, merged while they are loaded. Methods block on disk reads."""

    base: Path
    """Directory of the whole weights."""
    adapter: Path
    """Directory of the adapter."""

    @classmethod
    def at(cls, directory: Path) -> "AdaptedCheckpoint | None":
        """Return what `link` wrote to a directory; None if it holds other weights."""
        if not (directory / _BASE).is_symlink():
            return None
        return cls(base=(directory / _BASE).resolve(), adapter=(directory / _ADAPTER).resolve())

    def read_ahead(self) -> None:
        """
        Ask the kernel to have the base in the page cache, which all workers of a machine share, before it is loaded.

        Raises:
            OSError: A file cannot be read.
        """
        for file in weight_files(self.base):
            with file.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)

    def link(self, directory: Path) -> None:
        """Write an empty directory that the engine can load."""
        (directory / _BASE).symlink_to(self.base)
        (directory / _ADAPTER).symlink_to(self.adapter)

    def changes(self, config: Mapping[str, Any]) -> tuple[Adapter, dict[str, Change]]:
        """
        Return the adapter, and what it changes in the base as the engine loads it.

        Args:
            config: The model's `config.json`.

        Raises:
            WeightsError: The adapter does not fit the base, or is of a kind that is not merged exactly.
            WeightsUnreadableError: A file cannot be read.
        """
        adapter = Adapter.read(self.adapter)
        try:
            entries = entries_in(self.base)
        except OSError as error:
            raise WeightsUnreadableError(f"{self.base} cannot be read: {error}") from error
        shapes = {entry.name: entry.shape for entry in (entries_apart(entries) if _splits(config) else entries)}
        transposed = _text(config).get("model_type") in _TRANSPOSED
        return adapter, adapter.changes(shapes, is_tied=is_tied(config), transposes_experts=transposed)

    def merged(
        self, weights: "Iterable[tuple[str, Tensor]]", config: Mapping[str, Any]
    ) -> "Iterator[tuple[str, Tensor]]":
        """
        Yield the base's tensors, which `weights` are, with the adapter merged into them.

        Raises:
            WeightsError: As for `changes`.
        """
        from tlt_worker.checkpoints.merged import merged

        adapter, changes = self.changes(config)
        return merged(weights, adapter, changes)

    def shared(self, directory: Path, config: Mapping[str, Any]) -> Path:
        """
        Return a directory with embedding and head as they are served, for readers of only these: the base's, unless the
        adapter changes one of them. Then they are merged and written below `directory`.

        Raises:
            OSError: The disk is full.
            WeightsError: As for `changes`.
        """
        adapter, changes = self.changes(config)
        if not changes.keys() & {EMBEDDING, HEAD}:
            return self.base
        from safetensors.torch import save_file

        from tlt_worker.checkpoints.merged import computed, merged

        shapes = {entry.name: entry.shape for entry in entries_in(self.base) if entry.name in {EMBEDDING, HEAD}}
        found = read_tensors(self.base, shapes)
        changed = merged(found.items(), adapter, {name: changes[name] for name in found if name in changes})
        to = directory / _SHARED
        to.mkdir()
        save_file({name: computed(tensor).to(found[name].dtype) for name, tensor in changed}, to / FILE_NAME)
        return to


def _splits(config: Mapping[str, Any]) -> bool:
    return are_served_apart(_text(config))


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config

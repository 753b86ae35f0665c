"""
Hidden states of collected responses on disk: computed once, read in every pass over the data.

Shapes: N states of a response, C elements of a captured state.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.offline.states import states_of, windows_of

STATES_FILE = "states.bfloat16"


class StoredStates:
    """
    A file of states, which grows by a response whenever a missing one is requested.

    Args:
        directory: Directory of the file.
        places: The value of `places` when the file was last used; empty for a new file.
        policy: A transformers model without its head.
        layers: Layers whose outputs precede the last state in every captured state.
        size: Elements of a captured state.
        frame_tokens: Maximum states of a window.
    """

    def __init__(
        self,
        directory: Path,
        places: Mapping[str, tuple[int, int]],
        policy: Any,
        *,
        layers: tuple[int, ...],
        size: int,
        frame_tokens: int,
    ) -> None:
        self._file = directory / STATES_FILE
        self._places = {name: (int(first), int(count)) for name, (first, count) in places.items()}
        self._policy, self._layers, self._size = policy, layers, size
        self._frame_tokens = frame_tokens
        self._end = max((first + count for first, count in self._places.values()), default=0)
        with self._file.open("ab") as file:
            file.truncate(self._end * self._row_bytes)  # what was written after the places were

    @property
    def places(self) -> Mapping[str, tuple[int, int]]:
        """First state and number of states of each response, by name."""
        return self._places

    @property
    def _row_bytes(self) -> int:
        return self._size * torch.bfloat16.itemsize

    def frames(self, rollout: RecordedRollout, name: str) -> list[TrainingFrame]:
        """
        Return the windows of a response.

        Raises:
            OSError: The file cannot be written or read.
        """
        if name not in self._places:
            self._add(name, states_of(self._policy, rollout, layers=self._layers))
        return windows_of(self._read(name), rollout, name, frame_tokens=self._frame_tokens, layers=self._layers)

    def _add(self, name: str, states_NC: Tensor) -> None:
        with self._file.open("ab") as file:
            file.write(states_NC.contiguous().view(torch.uint8).numpy().tobytes())
        self._places[name] = self._end, len(states_NC)
        self._end += len(states_NC)

    def _read(self, name: str) -> Tensor:
        first, count = self._places[name]
        with self._file.open("rb") as file:
            file.seek(first * self._row_bytes)
            found = bytearray(file.read(count * self._row_bytes))
        return torch.frombuffer(found, dtype=torch.bfloat16).view(count, self._size)

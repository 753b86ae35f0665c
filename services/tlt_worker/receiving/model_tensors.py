"""The tensors that an update must have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tlt_common.domain.transfer import Collected
from tlt_worker.engine.checkpoints.policy import TensorHeader, read_headers, require_known
from tlt_worker.model_config import read_config

_DERIVED = "rotary_emb.inv_freq"
_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTensors:
    """The headers of a model's checkpoint, and which of its tensors every update has."""

    headers: Mapping[str, TensorHeader]
    required: frozenset[str]

    @classmethod
    def of(cls, model: Path) -> "ModelTensors":
        """
        Read the headers of a checkpoint. A head that is tied to the embedding is not required.

        Raises:
            WeightsError: It has no safetensors.
            ConfigError: It has no config.json.
        """
        headers = read_headers(model)
        is_tied = read_config(model).get("tie_word_embeddings") is True
        optional = (_DERIVED, _HEAD) if is_tied else (_DERIVED,)
        return cls(headers=headers, required=frozenset(name for name in headers if not name.endswith(optional)))

    def check(self, offered: Mapping[str, TensorHeader]) -> None:
        """
        Check the names, shapes and types of some of the tensors.

        Raises:
            WeightsError: One does not fit the model.
        """
        require_known(self.headers, offered)

    def progress(self, names: Iterable[str]) -> Collected:
        """Return how far a collection of these tensors is."""
        missing = sorted(self.required.difference(names))
        return Collected(
            tensors=len(self.required) - len(missing), missing=len(missing), first_missing=missing[0] if missing else ""
        )

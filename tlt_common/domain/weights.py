"""
Weight updates, and the names of their tensors in checkpoints.

Changes of served weights either replace a tensor NAME by a tensor of the same name, or replace some of its elements by
two tensors: their indices in the flattened tensor (`INDICES`) and their values (`VALUES`).
"""

from dataclasses import dataclass, field
from typing import Any

from tlt_common.domain.ids import PolicyVersion

SOURCE_PREFIXES = ("/", "s3://", "gs://", "gcs://", "az://", "abfs://", "abfss://")
"""Default of a worker's `sources`. Not http: whoever may publish weights could make workers call any host."""
MAX_WEIGHTS_BYTES = 2**41
"""Maximum size of weights that are streamed, received or copied, however large the volume is: a model of a trillion
parameters in bfloat16."""


ADAPTER_CONFIG = "adapter_config.json"
"""Name of the file that describes an adapter of PEFT, and of the tensor of type U8 that holds it in a stream."""
NO_ADAPTER = b'{"tlt": "no adapter"}'
"""Content of that file in a release that is its base alone, with which gateways return to the base."""
INDICES = ":indices"
"""End of the name of a one-dimensional tensor of type I64."""
VALUES = ":values"
"""End of the name of a tensor of as many elements, of the changed tensor's type."""
_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"})
"""Attributes in which torch.compile, FSDP, activation checkpointing and Lightning's strategies keep what they wrap. No
module of a checkpoint is called so."""
_PARALLEL = "module."
"""Beginning of names in DataParallel and DeepSpeed's engine."""
_PEFT = "base_model.model."
_PEFT_LAYER = "base_layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChunk:
    """A tensor of a streamed checkpoint, or a piece of one."""

    name: str
    dtype: str
    """Element type in safetensors' notation: BF16, F16 or F32."""
    shape: tuple[int, ...]
    offset_bytes: int
    data: bytes

    @property
    def size_bytes(self) -> int:
        """Size of the piece."""
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEnd:
    """The end of a release."""

    pieces: int
    """Number of pieces of the whole release."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReleaseId:
    """
    Identifies the weights of one update. Two releases of the same version differ in their key.

    Ordered by version, then key: where two releases compete, the higher one wins everywhere. Clients generate keys that
    start with the time, so that a later update of a version wins over the remains of an earlier one.
    """

    version: PolicyVersion
    key: str = ""
    """Idempotency key of the update. Empty for the weights an engine started with."""
    digest: str = field(default="", compare=False)
    """Digest of the content; empty until the content is known. Not part of the identity."""

    def __str__(self) -> str:
        return f"{self.version} ({self.key})" if self.key else str(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsUpdate:
    """Weights to install: a directory of safetensors, or tensors that follow in the stream (uri None)."""

    version: PolicyVersion | None
    """None for the one after the served version."""
    uri: str | None
    key: str = ""
    """Idempotency key. Repeating an update with the same key has no effect. If empty, the gateway generates one."""
    size_bytes: int = 0
    """Bytes of all tensors that follow; 0 if unknown."""
    base: PolicyVersion | None = None
    """Version that the following tensors change (`INDICES`, `VALUES`); None for whole weights."""
    adapter_base: str | None = None
    """Digest of the whole weights that the tensors, an adapter, are merged into; empty if unknown. None: no adapter."""
    adapter_name: str = ""
    """Name by which requests over HTTP may ask for the adapter; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOrder:
    """What a worker is to stage and where from: `uri`, `peers`, else tensors in the stream."""

    release: ReleaseId
    uri: str | None = None
    peers: tuple[str, ...] = ()
    """host:port of workers that have the release or are receiving it, in order of preference."""
    joining: bool = False
    """Whether other workers serve the release, so that it may replace a smaller one of the same version."""
    base: ReleaseId | None = None
    """The release that must be served until the switch, since the weights were derived from it; None for any."""
    adapter_base: ReleaseId | None = None
    """The release that an adapter is merged into, with the digest of its tensors if known; None for whole weights."""
    adapter_name: str = ""
    """See `WeightsUpdate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Result of staging."""

    staged_bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRelease:
    """The release a worker serves, which its peers can fetch from it."""

    id: ReleaseId
    uri: str | None = None
    """URI where the release was published; None if it was streamed."""
    adapter_base: ReleaseId | None = None
    """The release that it is merged into, if it is an adapter. Peers can fetch that one, too."""
    adapter_name: str = ""
    """See `WeightsUpdate`."""

    @property
    def whole(self) -> ReleaseId:
        """The whole weights that are served, or that the served adapter is merged into."""
        return self.adapter_base or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """Result of a weight update."""

    version: PolicyVersion
    workers: int
    elapsed_s: float
    digest: str = ""
    """Digest of the tensors, or of the files of a source, with which an adapter can name its base."""


@dataclass(frozen=True, slots=True)
class ChangedElements:
    """Changed elements of a tensor."""

    indices: Any
    """One-dimensional tensor or array of integers: unique indices into the flattened tensor, in any order."""
    values: Any
    """Tensor or array with one value per index, of the tensor's type."""


def plain_name(name: str) -> str:
    """
    Return a tensor's name without the prefixes of wrappers.

    Names with traces of an adapter (`lora_A`, `modules_to_save`) are kept, so that they are refused: it is unknown
    whether the adapter was merged.
    """
    plain = unwrapped_name(name)
    while plain.startswith(_PEFT):
        plain = unwrapped_name(".".join(part for part in plain.removeprefix(_PEFT).split(".") if part != _PEFT_LAYER))
    return plain


def unwrapped_name(name: str) -> str:
    """Return a tensor's name without the prefixes of wrappers other than PEFT."""
    plain = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
    while plain.startswith(_PARALLEL):
        plain = plain.removeprefix(_PARALLEL)
    return plain

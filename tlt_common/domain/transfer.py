"""Weights that a trainer sends itself, in several calls per update: broadcast to a process group, or pickled."""

from collections import Counter
from dataclasses import dataclass
from math import prod

from tlt_common.domain.bounds import require_name, require_range
from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import InvalidRequestError

BACKENDS = ("nccl", "gloo")
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Element types, as torch names them, and their sizes."""
MAX_PORT = 65535
MAX_WORLD = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A torch.distributed process group, and the rank that a worker takes in it."""

    name: str
    backend: str
    master_address: str
    master_port: int
    rank: int
    """Rank 0 is the trainer's."""
    world_size: int

    def checked(self) -> "GroupMember":
        """
        Return this member if it is valid.

        Raises:
            InvalidRequestError: A field is invalid. It is named as in SGLang's and vLLM's protocols.
        """
        require_name("group_name", self.name, least=1)
        require_name("master_address", self.master_address, least=1)
        if self.backend not in BACKENDS:
            raise InvalidRequestError(f"backend is {self.backend!r}; accepted: {', '.join(BACKENDS)}", field="backend")
        require_range("master_port", self.master_port, low=1, high=MAX_PORT)
        require_range("world_size", self.world_size, low=2, high=MAX_WORLD)
        require_range("rank_offset", self.rank, low=1, high=self.world_size - 1)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorForm:
    """Description of a tensor that is about to be broadcast."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the tensor."""
        return prod(self.shape) * DTYPE_BYTES[self.dtype]

    def checked(self) -> "TensorForm":
        """
        Return this form if it is valid.

        Raises:
            InvalidRequestError: The type or shape is invalid.
        """
        if self.dtype not in DTYPE_BYTES:
            raise InvalidRequestError(
                f"dtypes: tensor {self.name} has {self.dtype!r}; accepted: {', '.join(DTYPE_BYTES)}", field="dtypes"
            )
        if any(extent < 0 for extent in self.shape):
            raise InvalidRequestError(
                f"shapes: tensor {self.name} has {list(self.shape)}; accepted: 0 and above", field="shapes"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """Tensors that rank 0 of a group broadcasts, in this order."""

    group: str
    tensors: tuple[TensorForm, ...]
    flat: bool = False
    """Whether the tensors are broadcast as a single byte tensor, concatenated."""

    @property
    def size_bytes(self) -> int:
        """Size of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    def checked(self) -> "Broadcast":
        """
        Return this broadcast if it is valid.

        Raises:
            InvalidRequestError: There are no tensors, one is repeated, or one is invalid.
        """
        names = [tensor.name for tensor in self.tensors]
        if not names:
            raise InvalidRequestError("names is empty; accepted: the names of the tensors to receive", field="names")
        if len(set(names)) < len(names):
            ((twice, _),) = Counter(names).most_common(1)
            raise InvalidRequestError(f"names lists {twice!r} twice; list each tensor once", field="names")
        for tensor in self.tensors:
            tensor.checked()
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPart:
    """One of the calls in which the changes of a version arrive."""

    base: PolicyVersion
    number: int
    """Number of parts before this one. For the part after the last, this is the total number."""

    @property
    def next(self) -> "ChangesPart":
        """The next part."""
        return ChangesPart(base=self.base, number=self.number + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Tensors of an update that a worker has collected."""

    tensors: int = 0
    """Number of the model's tensors that have arrived, excluding those that an update may omit."""
    missing: int = 0
    """Number of tensors that are missing."""
    first_missing: str = ""
    """Name of one missing tensor."""
    parts: int = 0
    """Number of parts, if the tensors are changes."""

    @property
    def is_complete(self) -> bool:
        """Whether all tensors of the model have arrived."""
        return self.tensors > 0 and self.missing == 0

"""Bodies of SGLang's calls that send weights as tensors."""

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

from tlt_common.domain.bounds import require_range
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import Broadcast, ChangesPart, GroupMember
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.body import Body
from tlt_gateway.http.bodies.shown import shown
from tlt_gateway.http.bodies.updates import base_of, broadcast_of
from tlt_gateway.http.sglang.control import Nothing

GROUP = "weight_update_group"
FLAT = "flattened_bucket"
MAX_PARTS = 65536
"""Most calls that bring the changes of one update."""

_UPDATE: Mapping[str, tuple[Any, ...]] = {
    "flush_cache": (None, True, False),
    "torch_empty_cache": (None, True, False),
    "selector": (None, "all", "target"),
}
"""Cached prefixes are never used with other weights, whatever `flush_cache` says. Drafters are not the trainer's."""


class InitGroup(Body):
    """The body of /init_weights_update_group."""

    master_address: str
    master_port: int
    rank_offset: int
    world_size: int
    group_name: str = GROUP
    backend: str = "nccl"

    @property
    def member(self) -> GroupMember:
        """
        The rank that joins the group.

        Raises:
            InvalidRequestError: A field is out of range.
        """
        return GroupMember(
            name=self.group_name,
            backend=self.backend,
            master_address=self.master_address,
            master_port=self.master_port,
            rank=self.rank_offset,
            world_size=self.world_size,
        ).checked()


class DestroyGroup(Body):
    """The body of /destroy_weights_update_group."""

    group_name: str = GROUP


class UpdateFromGroup(Body):
    """The body of /update_weights_from_distributed."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_UPDATE,
        "sparse_metadata": (None,),
        "base_version": (None,),
    }

    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]
    group_name: str = GROUP
    abort_all_requests: bool = False
    weight_version: str | int | None = None
    load_format: str | None = None

    @property
    def broadcast(self) -> Broadcast:
        """
        The tensors to receive.

        Raises:
            InvalidRequestError: The lists differ in length, or an entry is invalid.
        """
        return broadcast_of(self.group_name, self.names, self.dtypes, self.shapes, flat=_is_flat(self.load_format))


class UpdateFromTensor(Body):
    """
    The body of /update_weights_from_tensor.

    `base_version` and `part` are extensions: the tensors change that version, and without `part` they are complete.
    """

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = _UPDATE

    serialized_named_tensors: list[str]
    abort_all_requests: bool = False
    weight_version: str | int | None = None
    load_format: str | None = None
    base_version: str | int | None = None
    part: int | None = None

    def changes(self, served: PolicyVersion) -> ChangesPart | None:
        """
        Return which part of the changes these tensors are, or None for whole weights.

        Raises:
            InvalidRequestError: The base is not a number, or a field belongs to another kind of update.
        """
        if (base := base_of(self.base_version, served=served)) is None:
            if self.part is not None:
                raise InvalidRequestError(
                    f"part is {self.part} without base_version; accepted: null, since whole weights are complete with "
                    "their last tensor",
                    field="part",
                )
            return None
        if self.part is not None and self.weight_version is not None:
            raise InvalidRequestError(
                f"weight_version is {shown(self.weight_version)} beside part; accepted: in /end_weight_update",
                field="weight_version",
            )
        number = self.part or 0
        require_range("part", number, low=0, high=MAX_PARTS - 1)
        return ChangesPart(base=base, number=number)

    @property
    def content(self) -> bytes:
        """
        The pickled tensors. SGLang takes one entry per rank of a tensor-parallel engine, each with whole tensors.

        Raises:
            InvalidRequestError: There is no entry, they differ, or one is not base64.
        """
        return pickled_in("serialized_named_tensors", self.serialized_named_tensors, self.load_format)


class EndUpdate(Nothing):
    """The body of /end_weight_update. All fields that SGLang lacks are extensions, which install changes."""

    base_version: str | int | None = None
    parts: int | None = None
    weight_version: str | int | None = None

    def following(self, served: PolicyVersion) -> ChangesPart | None:
        """
        Return the part after those to install, or None if no changes are to be installed.

        Raises:
            InvalidRequestError: The base is not a number, or a field is missing or superfluous.
        """
        base = base_of(self.base_version, served=served)
        if base is None:
            for field in ("parts", "weight_version"):
                if (value := getattr(self, field)) is not None:
                    raise InvalidRequestError(
                        f"{field} is {shown(value)} without base_version; accepted: null", field=field
                    )
            return None
        if self.parts is None:
            raise InvalidRequestError(
                "parts is not set beside base_version; accepted: the number of calls with changes", field="parts"
            )
        require_range("parts", self.parts, low=1, high=MAX_PARTS)
        return ChangesPart(base=base, number=self.parts)


def pickled_in(field: str, entries: list[str], load_format: str | None) -> bytes:
    """
    Return the pickled tensors of a field with one entry per rank of an engine.

    Raises:
        InvalidRequestError: There is no entry, they differ, or one is not base64.
    """
    _is_flat(load_format)
    if len(set(entries)) != 1:
        raise InvalidRequestError(f"{field} has {len(entries)} entries; accepted: one, or equal ones", field=field)
    try:
        return base64.b64decode(entries[0], validate=True)
    except ValueError as error:  # binascii's, or that of a text that is not ASCII
        raise InvalidRequestError(f"{field} is not base64: {error}", field=field) from None


def _is_flat(load_format: str | None) -> bool:
    if load_format not in {None, FLAT}:
        raise InvalidRequestError(f"load_format is {load_format!r}; accepted: null, {FLAT!r}", field="load_format")
    return load_format == FLAT

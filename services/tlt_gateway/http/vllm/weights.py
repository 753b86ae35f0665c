"""Bodies of vLLM's weight-update calls, and of the calls that trainers add to its server."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tlt_common.domain.transfer import Broadcast, GroupMember
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.address import address_in
from tlt_gateway.http.bodies.body import Body
from tlt_gateway.http.bodies.updates import broadcast_of

GROUP = "weight_transfer_engine"
"""Name of the group: vLLM's calls give it none."""


class InitInfo(Body):
    """Parameters for joining the trainer's group."""

    path: ClassVar[str] = "init_info."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {"packed": (None, False)}

    master_address: str
    master_port: int
    rank_offset: int
    world_size: int
    backend: str | None = None


class InitTransfer(Body):
    """The body of /init_weight_transfer_engine."""

    init_info: InitInfo

    @property
    def member(self) -> GroupMember:
        """
        The rank that joins the group.

        Raises:
            InvalidRequestError: A field is out of range, or the group is not a torch.distributed group.
        """
        info = self.init_info
        if info.backend is None:
            raise InvalidRequestError(
                "init_info.backend is not set, which means vLLM's own NCCL communicator; accepted: nccl or gloo, for a "
                f"group of torch.distributed whose name is {GROUP!r}",
                field="init_info.backend",
            )
        return GroupMember(
            name=GROUP,
            backend=info.backend,
            master_address=info.master_address,
            master_port=info.master_port,
            rank=info.rank_offset,
            world_size=info.world_size,
        ).checked()


class UpdateInfo(Body):
    """Description of the tensors to be broadcast."""

    path: ClassVar[str] = "update_info."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "packed": (None, False),
        "is_checkpoint_format": (None, True),
        "base_version": (None,),
    }

    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]

    @property
    def broadcast(self) -> Broadcast:
        """
        The tensors to receive.

        Raises:
            InvalidRequestError: The lists differ in length, or an entry is invalid.
        """
        return broadcast_of(
            GROUP, self.names, self.dtype_names, self.shapes, flat=False, dtypes_field="update_info.dtype_names"
        )


class Update(Body):
    """The body of /update_weights: tensors from the group, or a directory."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "skip_prefix_cache_reset": (None, True, False),
        "base_version": (None,),
    }

    update_info: UpdateInfo | None = None
    weight_dir: str | None = None
    weight_version: str | int | None = None


class StartWeightUpdate(Body):
    """The body of /start_weight_update."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "is_checkpoint_format": (None, True),
        "base_version": (None,),
    }


class Fetch(Body):
    """The body of /fetch_weights."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {"base_version": (None,)}

    target_version: int
    sync_dir: str | None = None
    uri: str | None = None

    @property
    def source(self) -> str:
        """
        The location of the checkpoint.

        Raises:
            InvalidRequestError: There is not exactly one location, or it is malformed.
        """
        if (self.sync_dir is None) == (self.uri is None):
            raise InvalidRequestError("accepted: either sync_dir or uri, with a whole checkpoint", field="uri")
        field = "uri" if self.sync_dir is None else "sync_dir"
        source = self.sync_dir or self.uri or ""
        address_in(field, source)
        return source

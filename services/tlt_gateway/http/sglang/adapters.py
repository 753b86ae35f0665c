"""Bodies of SGLang's calls that load and unload adapters (LoRA)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.address import address_in
from tlt_gateway.http.bodies.body import Body
from tlt_gateway.http.bodies.updates import version_of
from tlt_gateway.http.sglang.tensors import pickled_in

_LOADED: Mapping[str, tuple[Any, ...]] = {
    "pinned": (None, True, False),  # the one that is loaded is never evicted
    "lora_id": (None,),
}


class AdapterBody(Body):
    """Fields of all calls."""

    lora_name: str
    weight_version: str | int | None = None
    """An extension: the version that the policy becomes, by default the next."""

    def version(self, served: PolicyVersion) -> PolicyVersion | None:
        """
        Return the version; None is the next.

        Raises:
            InvalidRequestError: It is not a number.
        """
        return None if self.weight_version is None else version_of(self.weight_version, served=served)


class LoadAdapter(AdapterBody):
    """The body of /load_lora_adapter, and of vLLM's and SkyRL's calls for it."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_LOADED,
        "load_inplace": (None, True, False),  # an adapter of the same name is always replaced
        "is_3d_lora_weight": (None, False),
    }

    lora_path: str

    @property
    def source(self) -> str:
        """
        The location of the adapter.

        Raises:
            InvalidRequestError: It is malformed.
        """
        address_in("lora_path", self.lora_path)
        return self.lora_path


class LoadAdapterTensors(AdapterBody):
    """The body of /load_lora_adapter_from_tensors."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **_LOADED,
        "added_tokens_config": (None, {}),
        "expected_checksums": (None,),
    }

    config_dict: dict[str, Any]
    serialized_named_tensors: list[str] | None = None
    serialized_tensors: str | None = None
    """Name and form of the field in older versions of SGLang."""
    load_format: str | None = None

    @property
    def field(self) -> str:
        """Name of the field with the tensors."""
        return "serialized_named_tensors" if self.serialized_tensors is None else "serialized_tensors"

    @property
    def content(self) -> bytes:
        """
        The pickled tensors.

        Raises:
            InvalidRequestError: Both fields are set, or none, or it is not base64.
        """
        if (self.serialized_tensors is None) == (self.serialized_named_tensors is None):
            raise InvalidRequestError(
                "accepted: either serialized_named_tensors or serialized_tensors", field="serialized_named_tensors"
            )
        entries = [self.serialized_tensors] if self.serialized_tensors is not None else self.serialized_named_tensors
        return pickled_in(self.field, entries or [], self.load_format)


class UnloadAdapter(AdapterBody):
    """The body of /unload_lora_adapter, and of vLLM's call for it."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = dict.fromkeys(("lora_id", "lora_int_id"), (None,))

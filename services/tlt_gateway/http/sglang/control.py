"""Bodies of SGLang's control calls."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.pause import PauseMode
from tlt_common.domain.weights import WeightsUpdate
from tlt_gateway.http.bodies.address import address_in
from tlt_gateway.http.bodies.body import Body
from tlt_gateway.http.bodies.updates import base_of, version_of


class Abort(Body):
    """The body of /abort_request."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = dict.fromkeys(("finished_reason", "abort_message"), (None,))

    rid: str | None = None
    abort_all: bool = False


class UpdateFromDisk(Body):
    """
    The body of /update_weights_from_disk. With `base_version`, an extension of ours, the directory holds changes only.

    Cached prefixes are never used with other weights, whatever `flush_cache` asks for.
    """

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **dict.fromkeys(("is_async", "keep_pause", "recapture_cuda_graph"), (None, False)),
        "load_format": (None, "auto", "safetensors"),
        "manifest": (None,),
        "token_step": (None, 0),
        "torch_empty_cache": (None, True, False),
        "flush_cache": (None, True, False),
    }

    model_path: str
    weight_version: str | int | None = None
    base_version: str | int | None = None
    abort_all_requests: bool = False

    def update(self, served: PolicyVersion) -> WeightsUpdate:
        """
        Return the update; its version defaults to the one after `served`.

        Raises:
            InvalidRequestError: A version is not a number, or the path is malformed.
        """
        address_in("model_path", self.model_path)
        return WeightsUpdate(
            version=version_of(self.weight_version, served=served),
            uri=self.model_path,
            base=base_of(self.base_version, served=served),
        )


class PauseBody(Body):
    """The body of /pause_generation."""

    mode: Literal["abort", "retract", "in_place"] = "abort"

    @property
    def kind(self) -> PauseMode:
        """The gateway's pause mode."""
        return PauseMode.ABORT if self.mode == "abort" else PauseMode.KEEP


class Nothing(Body):
    """An empty body."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "tags": (None, []),
        "torch_empty_cache": (None, True, False),
        "selector": (None, "all", "target"),
    }


class MemoryBody(Body):
    """The body of /release_memory_occupation and /resume_memory_occupation."""

    tags: list[Literal["weights", "kv_cache", "cuda_graph"]] | None = None

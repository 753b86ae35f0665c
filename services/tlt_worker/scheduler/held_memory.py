"""
Device memory that an engine holds after start, by row of the plan. Used inside SGLang's processes only.

Written against SGLang 0.5.23: model runners measure the memory of loading in GiB, and KV pools their allocations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

GIB = 2**30


def share_with_target(drafts: Any) -> int:
    """
    Let SGLang's draft worker share the target's embedding and head; return the bytes of the drafter's own weights.

    SGLang does this once it has allocated the KV cache, which would be smaller by the drafter's copies of both.
    """
    drafts.init_token_map()
    drafts.init_lm_head()
    targets = {tensor.data_ptr() for tensor in drafts.target_worker.model_runner.model.parameters()}
    own = {tensor.data_ptr(): tensor.nbytes for tensor in drafts.draft_runner.model.parameters()}
    return sum(size for at, size in own.items() if at not in targets)


@dataclass(slots=True, kw_only=True)
class HeldMemory:
    """Memory by purpose. Empty on a CPU, for which nothing is planned."""

    on_gpu: bool
    drafter: int = 0
    """Bytes of the drafter's own weights; see `share_with_target`."""
    graphs: float = field(default=0.0, init=False)
    """Memory of graphs in GiB."""

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Count the device memory allocated within the context as graphs."""
        before = self._free()
        yield
        self.graphs += (before - self._free()) / GIB

    def gib(self, target: Any, kv_cache: Any) -> dict[str, float]:
        """
        Return the memory in GiB.

        Args:
            target: SGLang's model runner of the target.
            kv_cache: The KV pools of target and drafter.
        """
        if not self.on_gpu:
            return {}
        return {
            "weights": float(target.weight_load_mem_usage),
            "drafter": self.drafter / GIB,
            "KV cache": float(sum(pool.mem_usage for pool in kv_cache)),
            "CUDA graphs": self.graphs,
            "all": (torch.cuda.mem_get_info()[1] - self._free()) / GIB,
        }

    def _free(self) -> int:
        return torch.cuda.mem_get_info()[0] if self.on_gpu else 0

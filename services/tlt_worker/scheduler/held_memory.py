"""
Device memory an engine holds once it has started, by the names of the plan's rows. Used inside SGLang's processes only.

Written against SGLang 0.5.23: model runners measure what loading took in GiB, and KV pools what they allocated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

GIB = 2**30


@dataclass(slots=True, kw_only=True)
class HeldMemory:
    """Memory by purpose. Empty on a CPU, where nothing is planned."""

    on_gpu: bool
    graphs: float = field(default=0.0, init=False)
    """GiB."""

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Count as graphs what the device has less of after the context."""
        before = self._free()
        yield
        self.graphs += (before - self._free()) / GIB

    def gib(self, target: Any, drafter: Any, kv_cache: Any) -> dict[str, float]:
        """
        Return the memory in GiB.

        Args:
            target: SGLang's model runner of the target.
            drafter: That of the drafter.
            kv_cache: The KV pools of both.
        """
        if not self.on_gpu:
            return {}
        return {
            "weights": float(target.weight_load_mem_usage),
            "drafter": float(drafter.weight_load_mem_usage),
            "KV cache": float(sum(pool.mem_usage for pool in kv_cache)),
            "CUDA graphs": self.graphs,
            "all": (torch.cuda.mem_get_info()[1] - self._free()) / GIB,
        }

    def _free(self) -> int:
        return torch.cuda.mem_get_info()[0] if self.on_gpu else 0

"""
Device memory that an engine holds after start, by row of the plan, and its release on a CPU. Used inside SGLang's
processes only.

On GPUs, SGLang releases memory with torch_memory_saver, which exists for CUDA only. Here the pages of the same tensors
are returned to the kernel instead: their addresses stay valid and read as zeros, as those of a new KV cache do.

Written against SGLang 0.5.23: model runners measure the memory of loading in GiB, and KV pools their allocations.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sglang.srt.managers.io_struct import ReleaseMemoryOccupationReqOutput, ResumeMemoryOccupationReqOutput
from torch import Tensor

from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings
from tlt_worker.scheduler.models.packed_weights import forget_weight

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


def release_on_cpu(self: Any, request: Any) -> Any:
    """
    Replace SGLang's release of memory, which synchronizes with a GPU: return the pages of what the tags name.

    Raises:
        RuntimeError: The scheduler is not idle.
    """
    if not self.is_fully_idle():
        raise RuntimeError("memory is released only while the scheduler is idle")
    self.offload_tags.update(request.tags)
    target, drafter = self.draft_worker.runners
    if "weights" in request.tags:
        saved = {str(place): bytes_N for place, bytes_N in enumerate(_drafter_weights(target, drafter))}
        save_file(saved, _saved_drafter(self))
        for weight in (*target.model.parameters(), *drafter.model.parameters()):
            forget_weight(weight)
        _return_pages(_storages((*target.model.parameters(), *drafter.model.parameters())))
    if "kv_cache" in request.tags:
        self.flush_cache()
        _return_pages(_storages(_kv_buffers(target, drafter)))
    ctypes.CDLL(None).malloc_trim(0)  # else freed weights stay in the allocator's lists
    return ReleaseMemoryOccupationReqOutput()


def resume_on_cpu(self: Any, request: Any) -> Any:
    """
    Replace SGLang's resumption of memory: take pages again, and restore the drafter.

    The worker loads the policy again, from the files that it serves. A drafter's may be deleted by then.
    """
    self.offload_tags.difference_update(request.tags)
    if "weights" in request.tags:
        path = _saved_drafter(self)
        saved = load_file(path)
        for place, bytes_N in enumerate(_drafter_weights(*self.draft_worker.runners)):
            bytes_N.copy_(saved[str(place)])
        path.unlink()
    if "kv_cache" in request.tags:
        for buffer in _kv_buffers(*self.draft_worker.runners):
            buffer.zero_()  # now, and not when requests need them and the memory is gone
    return ResumeMemoryOccupationReqOutput()


def _saved_drafter(manager: Any) -> Path:
    directory = LinkSettings.from_json(os.environ[LINK_VARIABLE]).directory
    return Path(directory) / f"released-drafter-{manager.draft_worker.ranks.rank}.safetensors"


def _drafter_weights(target: Any, drafter: Any) -> list[Tensor]:
    """Return the drafter's own weights, without those it shares with the target, as bytes."""
    shared = {storage.data_ptr() for storage in _storages(target.model.parameters())}
    own = (storage for storage in _storages(drafter.model.parameters()) if storage.data_ptr() not in shared)
    return [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in own]


def _kv_buffers(*runners: Any) -> Iterator[Tensor]:
    for runner in runners:
        pool = runner.token_to_kv_pool
        # Models with sliding windows have one pool for them and one for full attention.
        pools = (pool.full_kv_pool, pool.swa_kv_pool) if hasattr(pool, "full_kv_pool") else (pool,)
        for part in pools:
            yield from (*part.k_buffer, *part.v_buffer)


def _storages(tensors: Iterable[Tensor]) -> list[torch.UntypedStorage]:
    """Return the distinct storages of tensors."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return list({storage.data_ptr(): storage for storage in storages}.values())


def _return_pages(storages: Iterable[torch.UntypedStorage]) -> None:
    """Return the whole pages of storages to the kernel; they read as zeros from then on."""
    libc = ctypes.CDLL(None, use_errno=True)
    for storage in storages:
        begin = -(-storage.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (storage.data_ptr() + storage.nbytes()) // mmap.PAGESIZE * mmap.PAGESIZE
        if end <= begin:
            continue
        if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), f"madvise: {os.strerror(ctypes.get_errno())}")

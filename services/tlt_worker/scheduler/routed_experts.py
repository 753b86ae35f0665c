"""
Corrects SGLang's capture of routed experts for arms. Used inside SGLang's processes only.

SGLang writes each pass's choices to a buffer on the device, copies them with the round's results, and keeps them on the
host by KV cache slot: `state_capturer/`. A slot's experts are thus those that computed its keys and values, which
handles rejected drafts, retraction and cached prefixes. SGLang does not account for verifications with more rows than
requests, nor for a tree's accepted path, which moves to other slots (`speculative/eagle_worker_common.py`). Written
against SGLang 0.5.23.
"""

import os
from collections.abc import Callable
from typing import Any

import torch

from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings


def room_for_verification(original: Callable[..., Any], *, max_running_requests: int, **kw: Any) -> Any:
    """Wrap the allocation of the buffers: every request may verify as many tokens as the largest arm."""
    arms = LinkSettings.from_json(os.environ[LINK_VARIABLE]).arms
    widest = max((arm.draft_tokens for arm in arms), default=1)
    return original(max_running_requests=max_running_requests * max(1, widest), **kw)


def keep_until_processed(original: Callable[..., Any], *args: Any, no_copy_to_cpu: bool = False, **kw: Any) -> Any:
    """
    Wrap the end of a pass: keep the experts in the round's result, with and without overlap.

    Without overlap, SGLang stores them immediately, before verification has determined the accepted ones.
    """
    captured = original(*args, no_copy_to_cpu=True, **kw)
    if not no_copy_to_cpu:
        captured.map_device_tensors(lambda tensor: tensor.cpu())
    return captured


def follow_accepted(result: Any, requests: int, nodes: int) -> None:
    """
    Move the experts of a tree's accepted path to the front of each request's rows, like its keys and values.

    Args:
        result: SGLang's result of a verification.
        requests: Number of requests.
        nodes: Rows per request.
    """
    captured = result.routed_experts_output
    if captured is None or result.accept_index is None:
        return
    # -1, of what is not accepted, becomes any row: it lies behind the accepted ones, in slots that are freed.
    index_BD = result.accept_index.to(captured.topk.device, torch.int64).clamp(min=0)
    moved = captured.topk.clone()
    moved.view(requests, nodes, *moved.shape[1:])[:, : index_BD.shape[1]] = captured.topk[index_BD]
    captured.topk = moved


def allocate_unpinned(original: Callable[..., Any], *args: Any, pin_memory: bool = False, **kw: Any) -> Any:
    """Wrap the allocation of host memory on a CPU, where CUDA cannot pin it."""
    del pin_memory
    return original(*args, pin_memory=False, **kw)

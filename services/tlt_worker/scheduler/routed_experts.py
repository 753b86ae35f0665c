"""
The experts that tokens were routed to: SGLang's capture, made right for arms. Used inside SGLang's processes only.

SGLang writes each pass's choices to a buffer on the device, copies them with the round's results, and keeps them on the
host by KV cache slot: `state_capturer/`. What a slot holds is thus what made its keys and values, and rejected drafts,
retraction and cached prefixes follow from the slots. It forgets that verification may have more rows than requests, and
that the accepted path of a tree is moved to other slots (`speculative/eagle_worker_common.py`). Written against SGLang
0.5.23.
"""

import os
from collections.abc import Callable
from typing import Any

import torch

from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings


def room_for_verification(original: Callable[..., Any], *, max_running_requests: int, **kw: Any) -> Any:
    """Wrap the creation of the buffers: every request may verify as many tokens as the largest arm."""
    arms = LinkSettings.from_json(os.environ[LINK_VARIABLE]).arms
    widest = max((arm.draft_tokens for arm in arms), default=1)
    return original(max_running_requests=max_running_requests * max(1, widest), **kw)


def keep_until_processed(original: Callable[..., Any], *args: Any, no_copy_to_cpu: bool = False, **kw: Any) -> Any:
    """
    Wrap the end of a pass: keep the choices in the round's result in any loop.

    Without overlap SGLang stores them at once, before the verification has said where the accepted ones are.
    """
    captured = original(*args, no_copy_to_cpu=True, **kw)
    if not no_copy_to_cpu:
        captured.map_device_tensors(lambda tensor: tensor.cpu())
    return captured


def follow_accepted(result: Any, requests: int, nodes: int) -> None:
    """
    Move the choices of a tree's accepted path to the front of each request's rows, as its keys and values were.

    Args:
        result: SGLang's result of a verification.
        requests: Number of requests.
        nodes: Rows of each.
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
    """Wrap the allocation of host memory on a CPU: there is no CUDA to register it with."""
    del pin_memory
    return original(*args, pin_memory=False, **kw)

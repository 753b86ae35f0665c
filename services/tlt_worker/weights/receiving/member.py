"""
One rank of a trainer's process group: `python -m tlt_worker.weights.receiving.member GROUP JOIN_S WAIT_S`.

Answers with one line of JSON after joining and after each broadcast, which has `error` if it failed. It runs in a
separate process, since a collective whose peers are gone can only be ended with its process.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors.torch import save_file
from torch import Tensor, distributed
from torch.distributed import distributed_c10d

from tlt_common.domain.transfer import GroupMember

TRAINER_RANK = 0


def joined(member: GroupMember, *, join_s: float, wait_s: float) -> Any:
    """
    Join a group as trainers create it: in addition to the default group, under its own name in the store.

    Raises:
        RuntimeError: The group did not become complete within `join_s`.
    """
    torch_groups: Any = distributed_c10d  # untyped where it is used here
    address = f"[{member.master_address}]" if ":" in member.master_address else member.master_address
    meeting = torch_groups.rendezvous(
        f"tcp://{address}:{member.master_port}", member.rank, member.world_size, timeout=timedelta(seconds=join_s)
    )
    store, rank, world_size = next(meeting)
    store.set_timeout(timedelta(seconds=join_s))
    group, _ = torch_groups._new_process_group_helper(  # noqa: SLF001 - the only way to have a second main group
        world_size,
        rank,
        [],
        torch_groups.Backend(member.backend),
        torch_groups.PrefixStore(member.name, store),
        group_name=member.name,
        backend_options=None,
        timeout=timedelta(seconds=wait_s),
    )
    return group


def received(group: Any, order: dict[str, Any], device: str) -> dict[str, Tensor]:
    """Receive the tensors of one broadcast, one at a time, so that the device holds only one."""
    forms = [(form["name"], getattr(torch, form["dtype"]), tuple(form["shape"])) for form in order["tensors"]]
    if not order["flat"]:
        return {name: _one(group, torch.empty(shape, dtype=dtype, device=device)) for name, dtype, shape in forms}
    sizes = [torch.Size(shape).numel() * dtype.itemsize for _, dtype, shape in forms]
    whole = _one(group, torch.empty(sum(sizes), dtype=torch.uint8, device=device))
    parts = zip(forms, torch.split(whole, sizes), strict=True)
    # Copies: a view at an odd offset cannot be read as a wider type.
    return {name: part.clone().view(dtype).reshape(shape) for (name, dtype, shape), part in parts}


def _one(group: Any, tensor: Tensor) -> Tensor:
    options = distributed.BroadcastOptions()
    options.rootRank, options.rootTensor = TRAINER_RANK, 0
    group.broadcast([tensor], options).wait()
    return tensor.cpu()


def serve(member: GroupMember, answers: TextIO, *, join_s: float, wait_s: float) -> None:
    """Join, then receive broadcasts as requested until standard input ends."""
    device = "cuda" if member.backend == "nccl" else "cpu"
    group = joined(member, join_s=join_s, wait_s=wait_s)
    print(json.dumps({}), file=answers)
    for line in sys.stdin:
        order = json.loads(line)
        save_file(received(group, order, device), Path(order["file"]))
        print(json.dumps({}), file=answers)


def main(arguments: list[str]) -> int:
    """Run the process; return its exit status."""
    # Gloo writes to standard output.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    member = GroupMember(**json.loads(arguments[0]))
    try:
        serve(member, answers, join_s=float(arguments[1]), wait_s=float(arguments[2]))
    except (RuntimeError, OSError, ValueError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}".partition("\n")[0]}), file=answers)
        return 1
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    status = main(sys.argv[1:])
    # Not sys.exit: destructors of a group whose peers are gone may wait for them.
    os._exit(status)

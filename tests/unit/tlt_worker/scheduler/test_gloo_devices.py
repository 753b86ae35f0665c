"""Process groups of one process share a network thread. In processes of their own, since groups are global."""

import multiprocessing
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from tlt_worker.scheduler.gloo_devices import SharedDevicesGloo

GROUPS = 5
pytestmark = pytest.mark.timeout(300)


def one_rank(rank: int, size: int, store: str, outcomes: Any) -> None:
    groups: Any = distributed_c10d
    groups.ProcessGroupGloo = SharedDevicesGloo
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    made = [dist.new_group(range(size), timedelta(seconds=60), backend="gloo") for _ in range(GROUPS)]
    total = torch.tensor([float(rank + 1)])
    for group in made:
        dist.all_reduce(total, group=group)
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    outcomes.put((float(total), names.count("gloo_tcp_loop")))
    dist.barrier()
    dist.destroy_process_group()


def play(size: int, store: Path) -> Sequence[tuple[float, int]]:
    context = multiprocessing.get_context("spawn")
    outcomes: Any = context.Queue()
    processes = [context.Process(target=one_rank, args=(rank, size, str(store), outcomes)) for rank in range(size)]
    for process in processes:
        process.start()
    found = [outcomes.get(timeout=200) for _ in processes]
    for process in processes:
        process.join(60)
    return found


@pytest.mark.parametrize("size", [1, 2])
def test_all_groups_of_a_process_share_one_thread_and_work(tmp_path: Path, size: int) -> None:
    total = sum(range(1, size + 1)) * size ** (GROUPS - 1)
    assert play(size, tmp_path / "store") == [(total, 1)] * size

"""Which calls count as waiting for a device."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tlt_bench.gpu_loop.waits import Waits
from tlt_worker.scheduler.drafts import backlog
from tlt_worker.scheduler.sampling import acceptance, threshold, walk
from tlt_worker.scheduler.sampling import draw as noise
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.forms import FORMS, Form

NODES, VOCABULARY = 4, 16


def waits_of(work: Callable[[], object]) -> int:
    with Waits() as waits:
        work()
    return sum(waits.places.values())


VALUES = torch.arange(6.0)
COUNTS = torch.arange(6)
CPU = torch.device("cpu")
PLACES = torch.tensor([1, 2])


def host() -> Tensor:
    """Return a tensor that is in the host's memory wherever the engine runs."""
    return torch.tensor([1, 2])


@pytest.mark.parametrize(
    "read",
    [
        lambda: VALUES.sum().item(),
        VALUES.tolist,
        VALUES.cpu,
        lambda: VALUES.to("cpu"),
        lambda: bool(VALUES.sum() > 0),
        lambda: int(VALUES[0]),
        VALUES.nonzero,
        lambda: torch.where(VALUES > 2),
        lambda: VALUES[VALUES > 2],
        lambda: VALUES.clone().__setitem__(VALUES > 2, 0.0),
        lambda: torch.tensor([1.0, 2.0], device="cpu"),
        lambda: VALUES.repeat_interleave(COUNTS),
        lambda: VALUES.to(CPU),
        lambda: VALUES.to(COUNTS),
        lambda: VALUES.to(device=CPU, dtype=torch.float64),
        lambda: host().to(CPU),
        lambda: host().to(COUNTS),
        lambda: VALUES.new_tensor([1.0, 2.0]),
        lambda: torch.asarray([1.0, 2.0], device="cpu"),
        lambda: VALUES[[1, 2]],
        lambda: VALUES[COUNTS[0]],
        lambda: VALUES[: COUNTS[2]],
        lambda: VALUES[np.array([1, 2])],
        lambda: VALUES[host()],
        lambda: VALUES[host() + 1],
        lambda: VALUES.clone().__setitem__(slice(0, 2), host()),
        lambda: VALUES[:2].clone().copy_(host()),
        lambda: VALUES.clone().index_put_((VALUES > 2,), VALUES[0]),
        lambda: f"{VALUES[0]}",
        lambda: VALUES[0] in VALUES,
        VALUES.argwhere,
        VALUES.unique_consecutive,
    ],
)
def test_what_the_host_must_know_counts(read: Callable[[], object]) -> None:
    assert waits_of(read) == 1


@pytest.mark.parametrize(
    "work",
    [
        lambda: VALUES[PLACES],
        lambda: VALUES[1:3],
        lambda: host().to(CPU, non_blocking=True)[0:1],
        lambda: VALUES[host().to(CPU, non_blocking=True)],
        lambda: VALUES.to("cpu", non_blocking=True),
        lambda: host().tolist(),
        lambda: int((host() + 1).sum()),
        lambda: host()[host()[0]],
        lambda: host().to(torch.int32).to("cpu"),
        lambda: torch.where(VALUES > 2, VALUES, 0.0),
        lambda: VALUES.masked_fill(VALUES > 2, 0.0).to(torch.float64),
        lambda: VALUES.repeat_interleave(3).cumsum(0),
        lambda: VALUES.index_select(0, PLACES),
        lambda: VALUES.repeat_interleave(COUNTS, output_size=15),
    ],
)
def test_what_runs_on_the_device_does_not(work: Callable[[], object]) -> None:
    assert waits_of(work) == 0


def chain(seeds: Tensor | None) -> Callable[[], None]:
    """Return the verification of three chains with filters."""
    torch.manual_seed(0)
    batch = 3
    probs = torch.rand(batch, NODES, VOCABULARY).softmax(-1)
    proposed = torch.rand(batch, NODES - 1, VOCABULARY).softmax(-1)
    drafts = torch.randint(VOCABULARY, (batch, NODES))
    cuts = Cuts(top_ks=torch.tensor([3, 99, 99]), top_ps=torch.tensor([1.0, 0.8, 1.0]), min_ps=torch.zeros(batch))
    positions = torch.arange(NODES).expand(batch, -1)
    written = (torch.zeros(batch * NODES, dtype=torch.int32), torch.zeros(batch, NODES, dtype=torch.int32))
    index = torch.arange(batch * NODES).view(batch, NODES)
    coins = torch.rand(batch, NODES), torch.rand(batch)
    counts = torch.zeros(batch, dtype=torch.int32)

    def verify() -> None:
        token = acceptance.verifying.set(acceptance.VerifyRound(positions=positions, cuts=cuts, seeds=seeds))
        try:
            acceptance.accept_chain(*written, counts, drafts, index, index, index, *coins, probs, proposed)
        finally:
            acceptance.verifying.reset(token)

    return verify


@pytest.mark.parametrize("seeds", [None, torch.tensor([5, noise.UNSEEDED, 7])], ids=["no seeds", "seeds"])
def test_verification_with_fixed_shapes_never_waits(monkeypatch: pytest.MonkeyPatch, seeds: Tensor | None) -> None:
    monkeypatch.setattr(noise, "draw_seeded", lambda probs, seeds, positions: probs.argmax(-1))
    assert waits_of(chain(seeds)) > 0  # the form for a CPU looks for the rows that need work
    monkeypatch.setitem(FORMS, "cpu", Form.FIXED)
    assert waits_of(chain(seeds)) == 0


def test_filters_and_walks_with_fixed_shapes_never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMS, "cpu", Form.FIXED)
    probs = torch.rand(5, VOCABULARY).softmax(-1)
    cuts = Cuts(top_ks=torch.full((5,), 3), top_ps=torch.full((5,), 0.9), min_ps=torch.zeros(5))
    tree = walk.DraftTree(tokens=torch.zeros(5, NODES, dtype=torch.int64), parents=torch.full((5, NODES), -1))
    assert waits_of(lambda: truncate(probs, cuts)) == 0
    assert waits_of(lambda: threshold.truncate(probs, cuts)) == 0
    assert waits_of(lambda: walk.follow(tree, 3, torch.zeros(5, NODES, dtype=torch.int64))) == 0


def test_a_switch_waits_once_for_what_was_skipped() -> None:
    spans = [backlog.Stretch(0, 3, 6), backlog.Stretch(1, 0, 2)]
    kept, lengths = torch.tensor([[4, -1, 6], [1, 2, -1]]), torch.tensor([6, 2])
    assert waits_of(lambda: backlog.wanted(spans, kept, lengths)) == 1


def test_waiting_for_an_event_counts() -> None:
    assert waits_of(lambda: torch.cpu.Event().synchronize()) == 1


def test_lengths_that_a_batch_has_on_the_host_are_read_for_free() -> None:
    lengths = torch.tensor([3, 4])
    with Waits() as waits:
        waits.know([lengths])
        assert lengths.tolist() == [3, 4]
    assert not waits.places


def test_importing_the_plugin_needs_no_engine(tmp_path: Path) -> None:
    code = "import sys, tlt_bench.gpu_loop.plugin as p; p.install(); assert 'sglang.srt.managers' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

"""Ranks learn whether they failed together, over gloo between two processes."""

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist

from tlt_worker.link.messages import ForceArms
from tlt_worker.scheduler import ranks
from tlt_worker.scheduler.ranks import Decision, LeaderError, Ranks, Told

WAIT_S = 3.0


def agreed(one: Ranks, decide: Callable[[], Decision], *received: Told) -> tuple[Decision, list[Told], str]:
    """Return a decision, the messages handled, and what the ranks exchanged for it."""
    handled: list[Told] = []
    with (
        patch.object(dist, "broadcast", wraps=dist.broadcast) as numbers,
        patch.object(dist, "broadcast_object_list", wraps=dist.broadcast_object_list) as objects,
    ):
        made = one.agree(lambda: received if one.leads else (), handled.append, decide)
    return made, handled, f"{numbers.call_count} of fixed size, {objects.call_count} pickled"


def one_rank(rank: int, folder: str, outcomes: Any) -> None:
    ranks.FAILURE_S = WAIT_S
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    cpu_group = dist.new_group([0, 1], timedelta(seconds=60), backend="gloo")
    one = Ranks.of(SimpleNamespace(ranks=[0, 1], world_size=2, rank_in_group=rank, cpu_group=cpu_group))
    found: dict[str, Any] = {
        "same": one.failed_together(["run", 3, "a", "b"]),
        "other requests": one.failed_together(["run", 3, "ab"[rank]]),
        "decision": agreed(one, lambda: Decision(3 + rank)),
        "with drafts": agreed(one, lambda: Decision(5, [[rank]])),
        "keeps up": agreed(one, lambda: Decision(0, keeps_up=rank == 0)),
        "messages": agreed(one, lambda: Decision(1), ForceArms(names=("off",))),
        "all done": one.all_did(done=True),
        "one undone": one.all_did(done=rank == 0),
    }
    handled: list[Told] = []
    try:
        one.agree(lambda: [ForceArms(names=("chain-3",))], handled.append, lambda: [][rank])
    except (IndexError, LeaderError) as error:
        found["no decision"] = (type(error), str(error), handled)
    found["same failed decision"] = one.failed_together(["run", 4])
    if rank == 1:
        found["alone"] = one.failed_together(["run", 5])
        one.all_did(done=True)
    else:
        found["unharmed"] = one.all_did(done=True)  # rank 0 goes on to its next message meanwhile
    outcomes.put((rank, found))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    folder = str(tmp_path_factory.mktemp("ranks"))
    processes = [context.Process(target=one_rank, args=(rank, folder, queue)) for rank in (0, 1)]
    for process in processes:
        process.start()
    found = dict(queue.get(timeout=240) for _ in processes)
    for process in processes:
        process.join(60)
    return [found[0], found[1]]


def test_ranks_that_failed_at_the_same_point_with_the_same_requests_go_on(outcomes: list[dict[str, Any]]) -> None:
    assert [one["same"] for one in outcomes] == [True, True]


def test_ranks_that_failed_with_different_requests_do_not(outcomes: list[dict[str, Any]]) -> None:
    assert [one["other requests"] for one in outcomes] == [False, False]


def test_a_rank_that_failed_alone_gives_up_and_disturbs_no_message(outcomes: list[dict[str, Any]]) -> None:
    assert outcomes[1]["alone"] is False
    assert outcomes[0]["unharmed"] is True


def test_a_decision_that_fails_on_rank_0_fails_on_all_ranks(outcomes: list[dict[str, Any]]) -> None:
    text = "list index out of range"
    received = [ForceArms(names=("chain-3",))]
    assert outcomes[0]["no decision"] == (IndexError, text, received)
    assert outcomes[1]["no decision"] == (LeaderError, f"IndexError: {text}", received)
    assert [one["same failed decision"] for one in outcomes] == [True, True]


def test_ranks_follow_rank_0_by_one_message(outcomes: list[dict[str, Any]]) -> None:
    sent = "1 of fixed size, 0 pickled"
    assert [one["decision"] for one in outcomes] == [(Decision(3), [], sent)] * 2
    assert [one["keeps up"] for one in outcomes] == [(Decision(0, keeps_up=True), [], sent)] * 2


def test_what_is_more_than_a_number_follows(outcomes: list[dict[str, Any]]) -> None:
    exchanged = "1 of fixed size, 1 pickled"
    assert [one["with drafts"] for one in outcomes] == [(Decision(5, [[0]]), [], exchanged)] * 2
    assert [one["messages"] for one in outcomes] == [(Decision(1), [ForceArms(names=("off",))], exchanged)] * 2


def test_something_is_done_once_all_ranks_did_it(outcomes: list[dict[str, Any]]) -> None:
    assert [one["all done"] for one in outcomes] == [True, True]
    assert [one["one undone"] for one in outcomes] == [False, False]

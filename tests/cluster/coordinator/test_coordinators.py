"""Coordinators that replace each other, a real API server, and workers of the wire alone."""

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.coordinator.processes import ACCOUNT, ROLE, STATE, CoordinatorProcess, coordinator, grant
from tests.cluster.kube.client import Client, Object
from tests.fakes.lease_holder import IDLE, LeaseHolder, hello
from tlt_common.domain.fleet import DrafterWish, Lease, WorkerState
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

WITHIN_S = 30.0


def pod(name: str, component: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/instance": "t", "app.kubernetes.io/component": component},
        },
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": "example.test/any:1",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await asyncio.to_thread(what):  # noqa: ASYNC110 - the API server is polled
            await asyncio.sleep(0.1)


def state(ns: Client) -> Object:
    kept: Object = json.loads(ns.json_of("get", "configmap", STATE)["data"]["state"])
    return kept


def events(ns: Client) -> dict[str, int]:
    return {event["message"]: event["count"] for event in ns.items("events") if event["reason"] == "RoleChanged"}


async def publish(at: CoordinatorProcess, base: int, uri: str) -> int:
    request = wire.pb.PublishDrafterRequest(base_version=base, uri=uri, worker_id="w0", held_out_top1=0.5)
    async with connect(at.address) as channel:
        with translated():
            return (await wire.Stub(channel).PublishDrafter(request)).drafter_version


def worker(at: CoordinatorProcess) -> LeaseHolder:
    return LeaseHolder(at.address, opening=(replace(hello("w0"), pod="worker-0"), IDLE))


@pytest.fixture
def account(ns: Client, tmp_path: Path) -> Client:
    """The service account with exactly the rights of the chart, in a namespace with a worker."""
    grant(ns)
    ns.apply(pod("worker-0", "worker"))
    return ns.as_account(ACCOUNT, tmp_path)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
async def test_the_next_coordinator_goes_on_with_drafter_and_epochs(
    ns: Client, account: Client, tmp_path: Path, end: signal.Signals
) -> None:
    async with coordinator(ns, account, "c-0", tmp_path) as first:
        async with worker(first) as before:
            lease = await before.order(Lease)
            assert await publish(first, 0, "file:///1") == 1
            await before.order(DrafterWish)
        first.process.send_signal(end)
        await first.process.wait()
    async with coordinator(ns, account, "c-1", tmp_path) as second:
        async with worker(second) as after:
            assert await after.order(DrafterWish) == DrafterWish(version=DrafterVersion(1), uri="file:///1")
            assert (await after.order(Lease)).epoch > lease.epoch
        assert await publish(second, 1, "file:///2") == 2
        assert state(ns)["drafter"] == {"version": 2, "uri": "file:///2"}
        assert len(state(ns)["drafters"]) == 2
        for at in (first, second):
            assert "kubernetes_refused" not in at.log.read_text()
            assert "Traceback" not in at.log.read_text()


async def test_of_two_at_once_the_older_one_ends_at_its_next_write(ns: Client, account: Client, tmp_path: Path) -> None:
    async with coordinator(ns, account, "c-0", tmp_path) as first, worker(first) as before:
        lease = await before.order(Lease)
        async with coordinator(ns, account, "c-1", tmp_path) as second, worker(second) as after:
            assert (await after.order(Lease)).epoch > lease.epoch
            with pytest.raises(UnavailableError, match=r"written by another coordinator \(c-1\)"):
                await publish(first, 0, "file:///1")
            async with asyncio.timeout(WITHIN_S):
                assert await first.process.wait() == 1
            assert "written by another coordinator (c-1): this coordinator ends" in first.log.read_text()
            assert await publish(second, 0, "file:///1") == 1


async def test_pods_show_the_roles_of_their_workers_and_events_count_the_changes(
    ns: Client, account: Client, tmp_path: Path
) -> None:
    def shows(role: str, epoch: int) -> Callable[[], bool]:
        def look() -> bool:
            metadata = ns.json_of("get", "pod", "worker-0")["metadata"]
            annotations = metadata.get("annotations", {})
            shown = (metadata["labels"].get("tlt.dev/role"), annotations.get("tlt.dev/epoch"))
            return shown == (role, str(epoch)) and annotations["tlt.dev/drafter-version"] == "0"

        return look

    async with coordinator(ns, account, "c-0", tmp_path) as at:
        async with worker(at) as trainer:
            await until(shows("rollout", 0))
            for _ in range(2):
                epoch = (await trainer.order(Lease)).epoch
                await trainer.say(replace(IDLE, state=WorkerState.TRAINING, epoch=epoch))
                await until(shows("training", epoch))
                await trainer.say(replace(IDLE, state=WorkerState.ROLLOUT, running=1))
                await until(shows("rollout", 0))
                await trainer.say(IDLE)
            await until(lambda: sorted(events(ns).values()) == [2, 2])
            assert f"from rollout to training, epoch {epoch}" in events(ns)
            await asyncio.to_thread(ns.kubectl, "delete", "pod", "worker-0", "--wait=true", "--grace-period=0")
            await trainer.say(replace(IDLE, state=WorkerState.ROLLOUT, running=1))
            await publish(at, 0, "file:///1")
        assert at.process.returncode is None


async def test_without_the_right_to_patch_pods_it_lends_and_says_what_is_missing(ns: Client, tmp_path: Path) -> None:
    rules = [rule for rule in ROLE["rules"] if rule["resources"] != ["pods"]]
    grant(ns, ROLE | {"rules": rules})
    ns.apply(pod("worker-0", "worker"))
    async with coordinator(ns, ns.as_account(ACCOUNT, tmp_path), "c-0", tmp_path) as at:

        def said() -> bool:
            return "kubernetes_refused" in at.log.read_text()

        async with worker(at) as lent:
            await lent.order(Lease)
            await until(said)
        assert await publish(at, 0, "file:///1") == 1
        refusals = [line for line in at.log.read_text().splitlines() if "kubernetes_refused" in line]
        assert all("pods" in line and "get" in line for line in refusals)
        assert at.process.returncode is None

"""The suite in real pods does its job, guarded as in production."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from grafana.prometheus import Prometheus
from grafana.walk import queries_of, substitute
from grafana.write import BOARDS
from tests.chart.rendering import CHART
from tests.cluster.eventually import eventually
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.kubelet import NODE
from tests.cluster.pods import finished, python_pod
from tests.cluster.suite.installed import CHECKPOINT, RELEASE, SERVER, WORKERS, Suite
from tests.cluster.suite.parts import REPLICAS, SERVICES, ready, started, until_back, until_restarted
from tests.cluster.suite.seeded_load import under_load
from tests.integration.observability.load import train
from tlt_common.client import SamplingParams

Record: TypeAlias = Callable[[str, object], None]

pytestmark = pytest.mark.timeout(1800)

TRAINER = Path(__file__).parent / "trainer.py"
STEPS = 2
WINDOW_S, STEP_S = 20, 2
LONGEST_S = 420.0
ROLLED_S = 600.0
WAIT = ("--wait", "--timeout", "540s")
CALL = "import socket; socket.create_connection(('{name}', 7700), timeout=5).close(); print('reached')"


def test_a_trainer_outside_the_cluster_gets_rollouts_and_sends_weights(suite: Suite) -> None:
    access = (suite.folder / "token", suite.folder / "ca.crt", SERVER)
    done = subprocess.run(
        [sys.executable, TRAINER, suite.endpoint, *access, CHECKPOINT, str(STEPS)],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    steps = json.loads(done.stdout.strip().splitlines()[-1])["steps"]
    first = steps[0]["policy_version"]  # whoever trained here before counted up
    assert first >= 1
    assert [step["answered_by"] for step in steps] == [[first], [first + 1]]
    assert all(step["tokens"] > 0 for step in steps)


def test_helm_test_passes(suite: Suite) -> None:
    told = suite.ns.helm("test", RELEASE, "--logs", "--timeout", "180s")
    assert "a rollout: 8 tokens" in told
    assert "without a token" in told


def test_pods_show_who_trains_and_events_tell_of_it(suite: Suite) -> None:
    def roles() -> set[str]:
        return {pod["metadata"]["labels"].get("tlt.dev/role", "") for pod in suite.pods("worker")}

    eventually(lambda: "training" in roles(), 120)
    with suite.client() as client, ThreadPoolExecutor() as threads:
        sampling = SamplingParams(max_new_tokens=600, ignore_eos=True)
        asked_for = [threads.submit(client.generate, [1, 5 + n], sampling) for n in range(2 * WORKERS)]
        eventually(lambda: roles() == {"rollout"}, 120)
        assert all(len(answer.result().token_ids) == 600 for answer in asked_for)
    eventually(lambda: "training" in roles(), 120)
    (pod, *_) = suite.pods("worker")
    assert int(pod["metadata"]["annotations"]["tlt.dev/epoch"]) >= 0
    reasons = {event["reason"] for event in suite.ns.items("events", "--field-selector", "reason=RoleChanged")}
    assert reasons == {"RoleChanged"}


def test_policies_admit_clients_and_no_stranger(suite: Suite) -> None:
    code = CALL.format(name=f"{RELEASE}-tlt-gateway")
    suite.ns.apply(python_pod("friend", code, labels={"tlt.dev/client": "true"}))
    assert finished(suite.ns, "friend").strip() == "reached"
    suite.ns.apply(python_pod("stranger", code))
    suite.ns.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/stranger", "--timeout=60s")
    assert "timed out" in suite.ns.kubectl("logs", "stranger")


def test_every_query_of_every_dashboard_brings_data(suite: Suite, scraped: Prometheus) -> None:
    began_s = time.time()

    def empty() -> set[tuple[str, str]]:
        now_s, lacking = time.time(), set()
        for query in (query for make in BOARDS.values() for query in queries_of(make())):
            expr = substitute(query.expr, range_s=WINDOW_S + int(now_s - began_s), window_s=WINDOW_S)
            found = scraped.at(expr, now_s) if query.instant else scraped.over(expr, began_s, now_s, STEP_S)
            if not any(series.has_numbers for series in found):
                lacking.add((query.board, query.panel))
        return lacking

    with _load(suite):
        eventually(lambda: not empty(), LONGEST_S)


@contextmanager
def _load(suite: Suite) -> Iterator[None]:
    """Ask as a trainer does, meanwhile."""
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as thread:
        work = loop.create_task(train(suite.endpoint, Path("/models"), **suite.access))
        running = thread.submit(_until_cancelled, loop, work)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(work.cancel)
            running.result(30)
            loop.close()


def _until_cancelled(loop: asyncio.AbstractEventLoop, work: "asyncio.Task[None]") -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(work)
    except asyncio.CancelledError:
        return


def test_a_worker_pod_that_is_deleted_loses_no_response_and_comes_back(suite: Suite) -> None:
    before = {pod["metadata"]["name"] for pod in suite.pods("worker")}
    with suite.client() as client, ThreadPoolExecutor() as threads:
        sampling = SamplingParams(max_new_tokens=400, ignore_eos=True)
        answers = [threads.submit(client.generate, [1, 5 + n], sampling) for n in range(4)]
        suite.ns.kubectl("delete", "pod", min(before), "--wait=false")
        assert [len(answer.result().token_ids) for answer in answers] == [400] * 4
    eventually(lambda: len({pod["metadata"]["name"] for pod in suite.pods("worker")} - before) == 1, 240)
    eventually(lambda: suite.ready_workers() == WORKERS, 420)
    with suite.client() as client:
        assert len(client.generate([1, 2], SamplingParams(max_new_tokens=4, ignore_eos=True)).token_ids) == 4


@pytest.mark.disturbance
def test_pods_of_every_kind_are_deleted_and_no_response_is_lost_or_changed(
    suite: Suite, record_property: Record
) -> None:
    with under_load(suite, record_property):
        for component in REPLICAS:
            before, engines = ready(suite, component), started(suite, "worker")
            suite.ns.kubectl("delete", "pod", min(before), "--grace-period=0", "--force", "--wait=false")
            if component == "head":  # Ray ends the workers of a head that is gone
                until_restarted(suite, "worker", engines)
            if component in {"gateway", "worker", "head"}:
                until_back(suite)  # of gateways and workers, one stays; all workers restart with the head


@pytest.mark.disturbance
def test_a_drained_node_loses_no_response(suite: Suite, record_property: Record) -> None:
    """The budgets keep one gateway and one worker, since their pods have nowhere else to go."""
    with under_load(suite, record_property):
        with suppress(CommandError):  # it cannot end
            suite.cluster.kubectl("drain", NODE, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=30s")
        assert len(ready(suite, "worker")) >= 1
        assert len(ready(suite, "gateway")) >= 1
        suite.cluster.kubectl("uncordon", NODE)
        until_back(suite)


@pytest.mark.disturbance
def test_the_chart_is_upgraded_and_rolled_back_and_no_response_is_lost_or_changed(
    suite: Suite, record_property: Record
) -> None:
    files = ("-f", CHART / "ci" / "tiny-cpu.yaml", "-f", suite.folder / "values.yaml")
    annotated = (part for name in SERVICES for part in ("--set-string", f"{name}.podAnnotations.release=second"))
    with under_load(suite, record_property):
        before = {name: ready(suite, name) for name in SERVICES}
        suite.ns.helm("upgrade", RELEASE, CHART, *files, *annotated, *WAIT, timeout_s=ROLLED_S)
        assert all(ready(suite, name).isdisjoint(before[name]) for name in SERVICES)
        suite.ns.helm("rollback", RELEASE, *WAIT, timeout_s=ROLLED_S)
        until_back(suite)

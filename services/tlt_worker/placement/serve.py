"""
Workers as Ray Serve replicas. Ray places, monitors and restarts them; requests never pass through it.

`python -m tlt_worker.placement.serve SPEC.json` runs them on a local Ray until SIGTERM; on KubeRay, Serve builds
`tlt_worker.placement.serve:pods` from the arguments in the RayService.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Never

import ray
from ray import serve
from ray.serve.schema import ApplicationStatus, ApplicationStatusOverview

from tlt_common.errors import EngineError, TltError
from tlt_common.rpc.app import exposed
from tlt_common.start_phase import enter, phase_file
from tlt_common.telemetry.log import get_logger
from tlt_common.whole_file import write_whole
from tlt_worker.config import WorkerConfig
from tlt_worker.hardware.cores import pin
from tlt_worker.main import draining, engine_of, live
from tlt_worker.placement.gpus import claim
from tlt_worker.placement.local import FleetSpec
from tlt_worker.placement.local_ray import start_ray
from tlt_worker.placement.pods import SLOT, PodsSpec

log = get_logger(__name__)

NAME = "workers"
FAILED = "failed to start"
"""Part of Serve's message about a deployment whose replica did not start."""
POLL_S = 0.2
HEALTH_EVERY_S = 1.0
LEAVE_S = 10.0
"""Shutdown timeout of a replica in seconds, after draining: its trainer writes a checkpoint."""


class WorkerReplica:
    """
    One worker inside a replica. Its identity is the replica's rank, which a restarted replica inherits.

    Serve owns this object and calls it only occasionally, so the worker runs in one task, which ends in `__del__`.
    """

    async def __init__(self, spec: FleetSpec | PodsSpec) -> None:  # type: ignore[misc] # Serve awaits it
        rank = serve.get_replica_context().rank.rank
        if log_file := spec.log_file(rank):
            write_to(log_file)
        try:
            await self._begin(spec, rank)
        except Exception as error:  # whatever it is, the start has failed: Serve would only try again
            spec.note_failure(rank, reason_of(error))
            raise

    async def _begin(self, spec: FleetSpec | PodsSpec, rank: int) -> None:
        """Start the worker and wait until it serves."""
        claim(spec.gpus)
        config = spec.here(rank)
        if config.cores:
            pin(config.cores)
        self._drain, self._drain_s = draining(), config.drain_s
        serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(config, serving), name=config.worker_id)
        self._life.add_done_callback(partial(_report, spec, rank))
        await asyncio.wait({self._life, serving}, return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            await self._life

    async def check_health(self) -> None:
        """
        Fail if the worker has ended, so that Serve replaces the replica.

        Raises:
            EngineError: The worker has ended.
        """
        if self._life.done():
            error = None if self._life.cancelled() else self._life.exception()
            raise EngineError(f"the worker ended: {error}") from error

    async def __del__(self) -> None:
        if self._drain_s and not self._life.done():
            await self._drain.complete(self._drain_s)
        self._life.cancel()
        async with asyncio.timeout(LEAVE_S):
            await asyncio.wait({self._life})

    async def _live(self, config: WorkerConfig, serving: asyncio.Future[None]) -> None:
        with exposed(config):
            await live(config, engine_of(config), drain=self._drain, on_serving=lambda _: serving.set_result(None))


def reason_of(error: BaseException) -> str:
    """Return why a worker did not start: the first error of a group, with its type unless it is a TltError."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.message if isinstance(error, TltError) else f"{type(error).__name__}: {error}"


def _report(spec: FleetSpec | PodsSpec, rank: int, life: asyncio.Task[None]) -> None:
    """Log and record why a worker ended: Serve's logs show the group of errors without its members."""
    if not life.cancelled() and (error := life.exception()) is not None:
        log.error("worker_ended", exc_info=error)
        spec.note_failure(rank, reason_of(error))


def application(spec: FleetSpec) -> serve.Application:
    """Return the workers of one machine. Every replica listens on its own port and reports it to the coordinator."""
    return _described(spec, drain_s=float(spec.worker.get("drain_s", 0.0)), ray_actor_options=actor_options(spec))


def actor_options(spec: FleetSpec) -> dict[str, Any]:
    """Return a replica's resources and environment. Ray sets CUDA_VISIBLE_DEVICES to the GPUs that it assigns."""
    kept = ("TLT_RUN_TOKEN", "SPT_NOENV", "TMPDIR", "OMP_NUM_THREADS")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    return {"num_cpus": 1, "num_gpus": spec.gpus_per_worker, "runtime_env": {"env_vars": variables}}


def pods(spec: PodsSpec) -> serve.Application:
    """
    Return the workers of a RayService, one per pod: `import_path: tlt_worker.placement.serve:pods`.

    Changed arguments replace replicas inside their pods; a replica releases its pod's GPUs first.
    """
    return _described(
        spec,
        drain_s=spec.drain_s,
        # A node may need several attempts until its model or GPU is available; errors are visible meanwhile.
        constructor_tries=20,
        placement_group_bundles=[spec.bundle],
        placement_group_strategy="STRICT_PACK",
        ray_actor_options={"num_cpus": 1, "num_gpus": spec.gpus_per_replica, "resources": {SLOT: 1}},
    )


def _described(
    spec: FleetSpec | PodsSpec, *, drain_s: float = 0.0, constructor_tries: int = 2, **options: Any
) -> serve.Application:
    deployment = serve.deployment(
        name=NAME,
        num_replicas=spec.replicas,
        health_check_period_s=HEALTH_EVERY_S,
        health_check_timeout_s=30.0,
        graceful_shutdown_timeout_s=drain_s + LEAVE_S + 5.0,
        # Serve handles no requests, so a replica's shutdown has none to wait for.
        graceful_shutdown_wait_loop_s=0.1,
        max_constructor_retry_count=constructor_tries,
        **options,
    )(WorkerReplica)
    described: serve.Application = deployment.bind(spec)
    return described


def write_to(path: Path) -> None:
    """Redirect the output of this process and its future children to `path`, away from Ray's session directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)


def run(spec: FleetSpec) -> Never:
    """Serve the workers on a private Ray instance until SIGTERM. Exit with 1 as soon as one of them fails to start."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    shutil.rmtree(spec.failures, ignore_errors=True)  # of an earlier start
    is_running, reason, phases = False, "", phase_file(spec.port_file)
    try:
        enter("starting Ray", phases)
        start_ray(spec)
        enter("starting Ray Serve", phases)
        serve.start(proxy_location="Disabled")
        # Not waited for by Serve: it starts a replica that failed again, without end if another one runs.
        target = serve.RunTarget(application(spec), name=NAME, route_prefix=None)
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
        enter("starting the workers' processes", phases)
        reason = failure_before_serving(spec, lambda: serve.status().applications[NAME])
        if is_running := not reason:
            if spec.port_file:
                write_whole(spec.port_file, b"{}")
            while True:
                signal.pause()
    finally:
        # A second signal must not interrupt the shutdown; SIGKILL still can.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if is_running:
            serve.shutdown()  # type: ignore[no-untyped-call] # an omission of Ray
        ray.shutdown()
    print(f"tlt: {reason}", file=sys.stderr, flush=True)  # noqa: T201 - the reason that `tlt up` shows
    sys.exit(1)


def failure_before_serving(spec: FleetSpec, status: Callable[[], ApplicationStatusOverview]) -> str:
    """Wait until all workers serve or one fails to start. Return why it failed, or an empty string."""
    while True:
        now = status()
        if now.status is ApplicationStatus.RUNNING:
            return ""
        if noted := spec.failure():
            return noted
        # A replica that did not note why its start failed: its process was killed, or Serve could not make it.
        if failed := next((each.message for each in now.deployments.values() if FAILED in each.message), ""):
            return spec.failure() or f"a worker's process ended while it started: {brief(failed)}{spec.last_lines()}"
        if now.status is ApplicationStatus.DEPLOY_FAILED:
            return now.message
        time.sleep(POLL_S)


def brief(message: str) -> str:
    """Return Ray's message about a process that ended, without its advice and addresses."""
    if found := re.search(r"Worker exit detail: ([^.]*)", message):
        return found[1]
    return message.rpartition("Error:")[2].strip().split("\n")[-1]


def _leave(_number: int, _frame: FrameType | None) -> Never:
    sys.exit(0)


if __name__ == "__main__":
    run(FleetSpec.model_validate_json(Path(sys.argv[1]).read_text()))

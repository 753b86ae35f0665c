"""Configuration of a run of the whole suite on one machine, and its checks before anything starts."""

import os
import socket
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from tlt_common.config.base import Frozen
from tlt_common.config.redis_url import checked_redis_url
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import require_free
from tlt_local.addresses import HOST, MAX_PORT
from tlt_local.configuration.certificates import check_certificates
from tlt_local.configuration.checkpoints import check_checkpoints
from tlt_local.configuration.gpus import Available, Placement, available_gpus, placed, with_ranks

REDIS_S = 3.0


class StackOptions(Frozen):
    """Options of the run as a whole."""

    workers: int | None = None
    """Workers to start, each with one engine. Null: as many as there are GPUs for; 2 on a machine without GPUs."""
    drafter: Path | str | None = None
    """Directory or URL (s3://, gs://, ...) of the drafter to start with, published as the first version and trained
    further; null: no learned drafts until one is trained."""
    redis: SecretStr = SecretStr("embedded")
    """`embedded`, or a redis[s]:// URL. One with a password is accepted in the file only."""
    port: int = 0
    """Port of the rollout endpoint; the coordinator, its status page and the endpoint over HTTP use the next three.
    0: any free ports."""
    cores_per_worker: int | None = None
    """CPU cores of each worker; null: the machine's cores are divided evenly."""
    gpus_per_worker: int | None = None
    """GPUs of each worker. Null: `engine.tensor_parallel` of the workers, or 1; 0 on a machine without GPUs."""
    tls: Path | None = None
    """Directory of certificates, one folder per component, as `tlt_local.configuration.certificates` describes it;
    null: plain text."""
    liveness_s: float = Field(30.0, gt=0)
    """Seconds without a sign of life after which a process of the run is killed and started again: its event loop does
    not run, or it is stopped. Time in which the machine gave it no core does not count."""
    run_dir: Path | None = None
    """Directory that keeps logs, checkpoints and drafters; null: they are deleted at the end."""


class StackConfig(StackOptions):
    """The suite: one of each service, and workers that share the machine."""

    model: Path
    """Directory of a Hugging Face checkpoint."""
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """More settings by service: gateway, worker, cache, trainer, tuner, coordinator. Keys nested, or joined by dots."""

    @property
    def drafter_uri(self) -> str:
        """Absolute path or URL of the drafter; empty for none."""
        given = str(self.drafter or "")
        return given if not given or "://" in given else str(Path(given).resolve())

    @property
    def ports(self) -> tuple[int, int, int, int]:
        """Ports of the rollout endpoint, the coordinator, its status page, and the rollout endpoint over HTTP."""
        return (self.port, self.port + 1, self.port + 2, self.port + 3) if self.port else (0, 0, 0, 0)

    @cached_property
    def placement(self) -> Placement:
        """
        Number of workers on this machine, and GPUs per worker.

        Raises:
            ConfigError: There are too few GPUs, or the CUDA driver does not work.
        """
        # A driver that does not work does not prevent engines on the CPU.
        available = Available() if self.gpus_per_worker == 0 else available_gpus()
        return placed(self.workers, self.gpus_per_worker, self.settings.get("worker", {}), available=available)


def check(config: StackConfig) -> None:
    """
    Check the options without starting anything.

    Raises:
        ConfigError: An option is invalid; the message names it and what is accepted.
    """
    cores = len(os.sched_getaffinity(0))
    if config.cores_per_worker is not None and not 1 <= config.cores_per_worker <= cores:
        raise ConfigError(
            f"--cores-per-worker is {config.cores_per_worker}; accepted: 1 to {cores}", field="cores_per_worker"
        )
    worker = with_ranks(config.settings.get("worker", {}), config.placement.gpus_each)
    check_checkpoints(config.model, config.drafter_uri, worker, config.placement.gpus_each)
    check_certificates(config.tls)
    _check_redis(config.redis.get_secret_value())
    if not 0 <= config.port <= MAX_PORT:
        raise ConfigError(f"--port is {config.port}; accepted: 0 to {MAX_PORT}", field="port")
    for port in config.ports:
        require_free(f"{HOST}:{port}", named="--port")


def _check_redis(redis: str) -> None:
    if redis == "embedded":
        return
    try:
        checked_redis_url(SecretStr(redis), words=("embedded",))
    except ValueError:
        raise ConfigError("--redis: accepted: embedded, or redis[s]://[:PASSWORD@]host[:port]", field="redis") from None
    from redis import Redis  # here: `tlt status` runs where only the client is installed
    from redis.exceptions import RedisError

    url = urlsplit(redis)
    if url.scheme == "unix":
        return
    address = (url.hostname, url.port or 6379)
    try:
        socket.create_connection(address, timeout=REDIS_S).close()
        if url.scheme == "redis":  # a server with TLS is verified by the services, which have its CA
            Redis.from_url(redis, socket_timeout=REDIS_S, retry=None).ping()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"--redis: no server listens on {address[0]}:{address[1]}: {reason}", field="redis"
        ) from error
    except RedisError as error:
        raise ConfigError(
            f"--redis: {address[0]}:{address[1]} does not answer as Redis does: {error}", field="redis"
        ) from error

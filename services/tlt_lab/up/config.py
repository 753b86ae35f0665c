"""What a run of the whole suite on one machine is made of, and what is checked before anything starts."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import require_free

HOST = "127.0.0.1"
PORT = 7700
"""Where the rollout endpoint is unless told otherwise, so that `tlt status` finds the coordinator next to it."""
MOST_PORT = 2**16 - 3
REDIS_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """The suite: one of each service, and workers that share the machine's cores."""

    model: Path
    workers: int = 2
    drafter: Path | None = None
    """Drafter to start with; None: plain decoding until one is trained."""
    redis: str = "embedded"
    """Or a redis:// URL."""
    port: int = 0
    """Of the rollout endpoint; the coordinator and its status page take the two above. 0: any three."""
    cores_per_worker: int | None = None
    """None divides the cores evenly."""
    run_dir: Path | None = None
    """Keeps logs, checkpoints and drafters after the end; None: nothing is kept."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """More settings by service: gateway, worker, cache, trainer, tuner, coordinator."""

    @property
    def ports(self) -> tuple[int, int, int]:
        """Of the rollout endpoint, the coordinator and its status page."""
        return (self.port, self.port + 1, self.port + 2) if self.port else (0, 0, 0)


def check(config: StackConfig) -> None:
    """
    Find what can be found wrong without starting anything.

    Raises:
        ConfigError: Names the option at fault and what is accepted.
    """
    if config.workers < 1:
        raise ConfigError(f"--workers is {config.workers}; accepted: 1 or more", field="workers")
    cores = len(os.sched_getaffinity(0))
    if config.cores_per_worker is not None and not 1 <= config.cores_per_worker <= cores:
        raise ConfigError(
            f"--cores-per-worker is {config.cores_per_worker}; accepted: 1 to {cores}", field="cores_per_worker"
        )
    _check_model(config.model)
    if config.drafter is not None and not any(config.drafter.glob("*.safetensors")):
        raise ConfigError(f"--drafter: {config.drafter} holds no *.safetensors", field="drafter")
    _check_redis(config.redis)
    if not 0 <= config.port <= MOST_PORT:
        raise ConfigError(f"--port is {config.port}; accepted: 0 to {MOST_PORT}", field="port")
    for port in config.ports:
        require_free(f"{HOST}:{port}", named="--port")


def _check_model(model: Path) -> None:
    path = model / "config.json"
    if not model.is_dir():
        raise ConfigError(f"--model: {model} is not a directory; accepted: a Hugging Face checkpoint", field="model")
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(
            f"--model: {model} has no config.json; accepted: a Hugging Face checkpoint", field="model"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"--model: {path} is not readable as JSON: {error}", field="model") from error
    if not any(model.glob("*.safetensors")):
        raise ConfigError(
            f"--model: {model} holds no *.safetensors; accepted: a Hugging Face checkpoint", field="model"
        )


def _check_redis(redis: str) -> None:
    if redis == "embedded":
        return
    url = urlsplit(redis)
    if url.scheme not in {"redis", "rediss"} or not url.hostname:
        raise ConfigError(f"--redis is {redis!r}; accepted: embedded, or redis://host:port", field="redis")
    address = (url.hostname, url.port or 6379)
    try:
        socket.create_connection(address, timeout=REDIS_S).close()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--redis: nobody answers at {address[0]}:{address[1]}: {reason}", field="redis") from error

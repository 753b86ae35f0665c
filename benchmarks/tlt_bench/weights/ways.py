"""The ways in which a trainer updates weights."""

import asyncio
import base64
import pickle
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx
from safetensors import safe_open
from safetensors.torch import load_file

from tlt_bench.weights.broadcaster import Broadcaster
from tlt_common.client import Client

CALLS = 3
"""Calls in which the ways with several calls send the tensors."""
FILE = "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatingTrainer:
    """Resources of a trainer: clients of the gateway, its side of a process group, and a checkpoint."""

    client: Client
    http: httpx.AsyncClient
    broadcaster: Broadcaster
    checkpoint: Path

    async def post(self, path: str, body: Any) -> None:
        """
        Call the gateway over HTTP.

        Raises:
            httpx.HTTPStatusError: The gateway refused the call.
        """
        (await self.http.post(path, json=body)).raise_for_status()

    def calls(self) -> list[list[str]]:
        """Return the names of the tensors per call."""
        with safe_open(self.checkpoint / FILE, "pt") as opened:
            names = sorted(opened.keys())
        return [names[begin::CALLS] for begin in range(CALLS)]


Way: TypeAlias = Callable[[UpdatingTrainer, int], Awaitable[None]]


async def disk(trainer: UpdatingTrainer, version: int) -> None:
    """Publish a directory over gRPC."""
    await trainer.client.publish_weights(version, trainer.checkpoint)


async def stream(trainer: UpdatingTrainer, version: int) -> None:
    """Stream a state dict over gRPC."""
    await trainer.client.publish_weights(version, load_file(trainer.checkpoint / FILE))


async def http_disk(trainer: UpdatingTrainer, version: int) -> None:
    """Name a directory in SGLang's call."""
    await trainer.post(
        "/update_weights_from_disk", {"model_path": str(trainer.checkpoint), "weight_version": str(version)}
    )


async def group(trainer: UpdatingTrainer, version: int) -> None:
    """Broadcast to a process group, in several calls."""
    state = load_file(trainer.checkpoint / FILE)
    for names in trainer.calls():
        await trainer.broadcaster.send(names)
        body = {
            "names": names,
            "dtypes": [str(state[name].dtype).removeprefix("torch.") for name in names],
            "shapes": [list(state[name].shape) for name in names],
            "group_name": trainer.broadcaster.group["group_name"],
            "weight_version": str(version),
        }
        await asyncio.gather(trainer.post("/update_weights_from_distributed", body), trainer.broadcaster.sent())


async def tensor(trainer: UpdatingTrainer, version: int) -> None:
    """Send pickled tensors in several of SGLang's calls."""
    state = load_file(trainer.checkpoint / FILE)
    for names in trainer.calls():
        content = pickle.dumps([(name, state[name]) for name in names])
        body = {"serialized_named_tensors": [base64.b64encode(content).decode()], "weight_version": str(version)}
        await trainer.post("/update_weights_from_tensor", body)


async def marked(trainer: UpdatingTrainer, version: int) -> None:
    """Name a directory with a marker in prime-rl's call."""
    (trainer.checkpoint / "STABLE").touch()
    await trainer.post("/update_weights", {"weight_dir": str(trainer.checkpoint), "weight_version": version})


WAYS: Mapping[str, Way] = {
    "disk": disk, "stream": stream, "http_disk": http_disk, "group": group, "tensor": tensor, "marked": marked,
}  # fmt: skip

"""slime's own updates of weights on the suite: a broadcast to a process group, and a checkpoint on disk."""

import argparse
import asyncio
import copy
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray
import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from slime.utils import accelerator
from slime.utils.accelerator.torch_accelerator import TorchAccelerator
from slime_client import NEW_TOKENS, arguments

BUCKET_BYTES = 2**21


class Processor(TorchAccelerator):  # type: ignore[misc]
    """The processor as an accelerator of slime's, whose groups of processes are gloo's."""

    name = device_type = "cpu"
    communication_backend_name = "gloo"

    def _module(self) -> Any:
        return torch.cpu

    def current_device(self) -> str:
        """Return the device: torch.cpu has no index of it."""
        return "cpu"


def prepared() -> None:
    """Have slime run on the processor, here and in its Ray actors."""
    accelerator.register_accelerator("cpu", Processor)


def broadcasting(args: argparse.Namespace, weights: dict[str, torch.Tensor]) -> Any:
    """Return slime's sender; of it, only the conversion of Megatron's parameters is replaced, which needs CUDA."""
    from megatron.core import parallel_state
    from slime.backends.megatron_utils.update_weight.update_weight_from_distributed import (
        UpdateWeightFromDistributed,
    )
    from slime.utils.distributed_utils import init_gloo_group

    class Sender(UpdateWeightFromDistributed):  # type: ignore[misc]
        def _iter_non_expert_chunks(self) -> Iterator[list[tuple[str, torch.Tensor]]]:
            chunk, filled_bytes = [], 0
            for name, tensor in weights.items():
                if chunk and filled_bytes + tensor.nbytes > BUCKET_BYTES:
                    yield chunk
                    chunk, filled_bytes = [], 0
                chunk.append((name, tensor))
                filled_bytes += tensor.nbytes
            yield chunk

        def _iter_expert_chunks(self) -> Iterator[list[tuple[str, torch.Tensor]]]:
            yield from ()

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    init_gloo_group()
    parallel_state.initialize_model_parallel()
    return Sender(args, [], dict, model_name="qwen3", quantization_config=None)


@ray.remote(num_cpus=0)
class Learner:
    """Writes the next checkpoint where slime's learner does, which needs CUDA."""

    def __init__(self, checkpoint: str, directory: str, version: int) -> None:
        self._checkpoint, self._directory, self._version = Path(checkpoint), Path(directory), version

    def update_weights(self) -> None:
        """Write slightly different weights."""
        self._version += 1
        written = self._directory / f"weight_v{self._version:06d}"
        shutil.copytree(self._checkpoint, written)
        save_file(changed(self._checkpoint, self._version), written / "model.safetensors", metadata={"format": "pt"})


@ray.remote(num_cpus=0)
class Rollouts:
    """Knows the engines, as slime's rollout manager does."""

    def __init__(self, engines: list[Any]) -> None:
        self._engines = engines

    def get_updatable_engines_and_lock(self) -> tuple[list[Any], None]:
        """Return what slime updates."""
        return self._engines, None


def changed(checkpoint: Path, version: int) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint, scaled a little."""
    return {
        name: tensor * (1 + version * 2**-12) for name, tensor in load_file(checkpoint / "model.safetensors").items()
    }


def configured(http: str, model: Path, directory: str) -> argparse.Namespace:
    """Return those of slime's arguments that its client and its updates read."""
    address = urlsplit(http)
    args = arguments(http, model)
    more = {
        "rollout_external": True, "rollout_external_engine_addrs": [address.netloc], "offload_rollout": False,
        "seed": 1, "num_gpus_per_node": 1, "rollout_num_gpus_per_engine": 1, "sglang_pp_size": 1, "sglang_ep_size": 1,
        "fp16": False, "use_rollout_routing_replay": False, "update_weight_disk_dir": directory, "ci_test": True,
        "update_weight_mode": "full", "update_weight_transport": "disk", "update_weight_local_checkpoint_dir": None,
        "update_weight_disk_keep_files": False, "release_train": False, "update_weight_start_version": 0,
    }  # fmt: skip
    vars(args).update(more)
    return args


def connected(args: argparse.Namespace) -> list[Any]:
    """Return slime's engines, which it finds, compares and registers as its trainer does."""
    from slime.backends.sglang_utils.external import (
        apply_external_engine_info_to_args,
        start_external_rollout_servers,
    )

    apply_external_engine_info_to_args(args)
    router = (args.sglang_router_ip, args.sglang_router_port)
    servers, starting = start_external_rollout_servers(args, start_router=lambda *_, **__: router)
    ray.get(starting)
    engines: list[Any] = servers["default"].engines
    return engines


async def spans_amid(args: argparse.Namespace, update: Any) -> list[str]:
    """Update the weights while slime generates; return the versions of the response's parts."""
    from slime.rollout.sglang_rollout import GenerateState, generate
    from slime.utils.http_utils import init_http_client
    from slime.utils.types import Sample

    init_http_client(args)
    params: dict[str, Any] = GenerateState(args).sampling_params | {"ignore_eos": True}
    sample = Sample(prompt="<bos> Numbers 2 5 7 . Target 14 .", index=0)
    generating = asyncio.create_task(generate(args, sample, copy.deepcopy(params)))
    await asyncio.sleep(1.5)
    await asyncio.to_thread(update)
    sample = await generating
    assert sample.status == Sample.Status.ABORTED, sample.status  # noqa: S101
    sample = await generate(args, sample, copy.deepcopy(params))
    assert sample.response_length == len(sample.rollout_log_probs) == NEW_TOKENS  # noqa: S101
    versions: list[str] = sample.weight_versions
    return versions


def main(http: str, model: Path) -> None:
    """Update in both ways and check what slime is told."""
    from slime.ray.actor_group import RayTrainGroup
    from slime.ray.utils import Lock

    with tempfile.TemporaryDirectory() as directory:
        args = configured(http, model, directory)
        engines = connected(args)
        served = int(ray.get(engines[0].get_weight_version.remote()))
        sender = broadcasting(args, changed(model, 1))
        sender.weight_version = served  # as `update_weight_start_version` in slime's --custom-config-path
        sender.connect_rollout_engines(engines, Lock.remote(), engine_gpu_counts=[1])
        versions = asyncio.run(spans_amid(args, sender.update_weights))
        assert versions == [str(served), str(served + 1)], versions  # noqa: S101
        sender.disconnect_rollout_engines()
        args.update_weight_start_version = served + 1
        group = RayTrainGroup(args, 1, 1, pg=None)
        group._actor_handlers = [Learner.remote(str(model), directory, served + 1)]  # noqa: SLF001
        group.set_rollout_manager(Rollouts.remote(engines))
        group.update_weights()  # compares the engines' version with its own, for `ci_test` is set
        last = int(ray.get(engines[0].get_weight_version.remote()))
        assert last == served + 2  # noqa: S101
    print(f"result: broadcast as version {versions[1]} amid a response, checkpoint as version {last}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    prepared()
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": prepared},
    )
    try:
        main(options.http, options.model)
    finally:
        ray.shutdown()

"""slime's own engine class on the suite: its calls that update weights, from a directory and from a process group."""

import argparse
import asyncio
import copy
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from slime.backends.sglang_utils.external import discover_external_engines, external_engine_init_kwargs
from slime.backends.sglang_utils.sglang_engine import SGLangEngine
from slime.rollout.sglang_rollout import GenerateState, generate
from slime.utils.accelerator import register_accelerator
from slime.utils.accelerator.cuda import CUDAAccelerator
from slime.utils.distributed_utils import init_process_group
from slime.utils.http_utils import init_http_client
from slime.utils.types import Sample
from slime_client import NEW_TOKENS, arguments

BUCKETS = 3
GROUP = "slime-pp_0"

Weights = dict[str, torch.Tensor]


class NoAccelerator(CUDAAccelerator):  # type: ignore[misc] # slime has no types
    """Lets the engine ask for the number of a GPU that it does not use, since it runs already."""

    def is_available(self) -> bool:
        return True


def engine_of(args: argparse.Namespace, http: str) -> Any:
    """Return slime's engine for one that runs already, as `--rollout-external-engine-addrs` makes it."""
    vars(args).update(
        rollout_external=True, rollout_num_gpus_per_engine=1, num_gpus_per_node=8, actor_num_gpus_per_node=8,
        actor_num_nodes=1, colocate=False, debug_rollout_only=False, sglang_pp_size=1, sglang_ep_size=1, seed=1,
        offload_rollout=False, fp16=False,
    )  # fmt: skip
    register_accelerator("host", NoAccelerator, priority=1, communication_backends=("gloo",))
    (info,) = discover_external_engines([urlsplit(http).netloc])
    engine = SGLangEngine(args, rank=0, base_gpu_id=0)
    engine.init(**external_engine_init_kwargs(info))
    return engine


def from_disk(engine: Any, model: Path, weights: Weights, version: int) -> None:
    """Update as slime does with `--update-weight-transport disk`."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / f"weight_v{version:06d}"
        shutil.copytree(model, directory)
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        engine.pause_generation()
        engine.flush_cache()
        engine.update_weights_from_disk(str(directory), weight_version=str(version))
        engine.continue_generation()


async def from_group(engine: Any, weights: Weights, version: int) -> None:
    """Update as slime does by default: tensors are broadcast in buckets. Its learner is rank 0; NCCL needs GPUs."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    group, _ = await asyncio.gather(
        asyncio.to_thread(
            init_process_group, backend="gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2, rank=0,
            group_name=GROUP,
        ),
        asyncio.to_thread(engine.init_weights_update_group, "127.0.0.1", port, 1, 2, GROUP, "gloo"),
    )  # fmt: skip
    engine.pause_generation()
    engine.flush_cache()
    names = list(weights)
    for begin in range(BUCKETS):
        bucket = {name: weights[name] for name in names[begin::BUCKETS]}
        told = asyncio.create_task(
            asyncio.to_thread(
                engine.update_weights_from_distributed,
                names=list(bucket), dtypes=[tensor.dtype for tensor in bucket.values()],
                shapes=[tensor.shape for tensor in bucket.values()], group_name=GROUP, weight_version=str(version),
            )
        )  # fmt: skip
        for tensor in bucket.values():
            await asyncio.to_thread(dist.broadcast, tensor, 0, group=group)
        await told
    engine.continue_generation()
    engine.destroy_weights_update_group(GROUP)


async def main(http: str, model: Path) -> None:
    """Update twice, the first time amid a response, and check what slime receives."""
    args = arguments(http, model)
    init_http_client(args)
    engine = engine_of(args, http)
    version = int(engine.get_weight_version())
    weights = {name: tensor * (1 + 2**-10) for name, tensor in load_file(model / "model.safetensors").items()}
    params: dict[str, Any] = GenerateState(args).sampling_params | {"ignore_eos": True}
    sample = Sample(prompt="<bos> Numbers 2 5 7 . Target 14 .", index=0)
    generating = asyncio.create_task(generate(args, sample, copy.deepcopy(params)))
    await asyncio.sleep(1.5)
    await asyncio.to_thread(from_disk, engine, model, weights, version + 1)
    sample = await generating
    before = sample.response_length
    assert sample.status == Sample.Status.ABORTED, sample.status  # noqa: S101
    assert 0 < before < NEW_TOKENS  # noqa: S101
    assert engine.get_weight_version() == str(version + 1)  # noqa: S101
    sample = await generate(args, sample, copy.deepcopy(params))
    assert sample.response_length == len(sample.rollout_log_probs) == NEW_TOKENS  # noqa: S101
    assert sample.weight_versions == [str(version), str(version + 1)], sample.weight_versions  # noqa: S101
    await from_group(engine, weights, version + 2)
    assert engine.get_weight_version() == str(version + 2)  # noqa: S101
    last = await generate(args, Sample(prompt="<bos> Numbers 2 5 7 . Target 14 .", index=1), copy.deepcopy(params))
    assert last.weight_versions == [str(version + 2)], last.weight_versions  # noqa: S101
    print(
        f"result: {before} tokens before the update from a directory and {NEW_TOKENS - before} after it, versions "
        f"{sample.weight_versions}; then {len(weights)} tensors by broadcast, version {last.weight_versions[0]}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    asyncio.run(main(options.http, options.model.resolve()))

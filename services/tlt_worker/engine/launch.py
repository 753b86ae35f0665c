"""Launches an engine: SGLang's arguments and the environment of its processes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.errors import ConfigError, EngineError
from tlt_common.start_phase import enter
from tlt_worker.capacity.cpu_plan import cpu_slots
from tlt_worker.capacity.profile import DeviceProfile
from tlt_worker.capacity.width import samples_drafts
from tlt_worker.engine.control import Control
from tlt_worker.engine.device import Device
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment
from tlt_worker.hardware.cores import share
from tlt_worker.link.failure import read_failure

ALGORITHMS = {DrafterArchitecture.BLOCK: "EAGLE3", DrafterArchitecture.MTP: "EAGLE"}
"""SGLang's algorithm where it has another name than the architecture. With EAGLE3, the target returns the states of the
layers that a block drafter reads; verification and scheduling do not depend on where drafts come from."""
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def plain_arguments(
    model: Path, config: EngineConfig, profile: DeviceProfile, *, context_length: int, experiment: Experiment = NONE
) -> dict[str, Any]:
    """Return SGLang's arguments without speculation, which our engine shares with plain SGLang."""
    arguments: dict[str, Any] = {
        "model_path": str(model),
        # Token ids in and out, without a detokenizer: tokens and control responses share one socket.
        "skip_tokenizer_init": True,
        "dtype": profile.dtype,
        "device": profile.accelerator.kind,
        "context_length": context_length,
        "max_running_requests": config.max_running,
        "max_total_tokens": config.max_total_tokens,
        "random_seed": experiment.seed,
        "log_level": experiment.log_level,
        "incremental_streaming_output": True,
        "weight_version": "0",
        "sleep_on_idle": True,
        "tp_size": config.tensor_parallel,
    }
    if config.return_routed_experts:
        # SGLang's other kernels choose experts by themselves and record nothing (`TopK.forward_cuda`, layers/moe/topk).
        arguments |= {"enable_return_routed_experts": True, "moe_runner_backend": "triton"}
    if profile.accelerator.kind == "cpu":
        if config.max_total_tokens is None:
            arguments["max_total_tokens"] = config.max_running * context_length
        return arguments | {"sampling_backend": "pytorch", "disable_cuda_graph": True}
    if profile.is_float32:
        arguments["enable_tf32_matmul"] = False  # some models ask for products of 10 bits
    return arguments | {"mem_fraction_static": config.gpu_memory}


def server_arguments(
    model: Path,
    config: EngineConfig,
    profile: DeviceProfile,
    *,
    context_length: int,
    drafter: Path,
    architecture: DrafterArchitecture = DrafterArchitecture.EAGLE,
    experiment: Experiment = NONE,
) -> dict[str, Any]:
    """Return SGLang's arguments. The engine always launches with a drafter, as a chain as wide as its widest arm."""
    width = profile.width
    # SGLang reserves part of the context for a round's drafts; our requests may use all of `context_length`.
    plain = plain_arguments(model, config, profile, context_length=context_length + width, experiment=experiment)
    arguments: dict[str, Any] = {
        **plain,
        **profile.arguments(),
        "speculative_algorithm": ALGORITHMS.get(architecture, architecture.upper()),
        "speculative_draft_model_path": str(drafter),
        "speculative_num_steps": width - 1,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": width,
        # Drafts are sampled and verified by rejection: equally lossless, with a longer accept length than drafting the
        # most likely token (7.1 instead of 5.4 for a chain of 7 at temperature 1, tiny reasoner).
        "speculative_use_rejection_sampling": experiment.lossless and samples_drafts(profile.arms),
    }
    if profile.accelerator.kind == "cpu":
        arguments["max_total_tokens"] = cpu_slots(config, context_length=context_length, width=width)
    else:
        # No arm has the launch shape; arms capture their own graphs (`graphs.Graphs`).
        arguments["disable_decode_cuda_graph"] = True
    if config.releasable and profile.accelerator.kind == "cuda":  # a CPU's is released by our plug-in
        # Copies on the host, since a release would leave policy and drafter without weights: accept lengths of 1.
        arguments |= {
            "enable_memory_saver": True,
            "enable_weights_cpu_backup": True,
            "enable_draft_weights_cpu_backup": True,
        }
    return arguments


def launched(arguments: dict[str, Any], *, failure: Path, phase_file: Path | None = None) -> Control:
    """
    Start SGLang and wait until the model is loaded. Call it on the thread whose loop will serve.

    Args:
        arguments: SGLang's arguments.
        failure: File of the error that ended a scheduler.
        phase_file: File for the phases of the start; None only logs them.

    Raises:
        EngineError: SGLang did not start; the message has the scheduler's own error, if it had one.
    """
    try:
        return Control.launch(arguments, enter=partial(enter, file=phase_file))
    except EngineError as error:
        why = read_failure(failure)
        raise EngineError(f"{error.message}; its scheduler ended with {why}" if why else error.message) from error


def rank_variables(config: EngineConfig, device: Device) -> dict[str, str]:
    """Return the environment variables with which several ranks share a CPU: gloo replaces NCCL."""
    if device.kind != "cpu" or config.tensor_parallel == 1:
        return {}
    cores = os.sched_getaffinity(0)
    shares = (
        share(cores, per_worker=None, replicas=config.tensor_parallel, rank=rank)
        for rank in range(config.tensor_parallel)
    )
    return {
        "SGLANG_CPU_OMP_THREADS_BIND": "|".join(",".join(map(str, sorted(mine))) for mine in shares),
        # torch ships libnccl, from whose presence SGLang would infer a GPU.
        "SGLANG_NCCL_SO_PATH": "none",
    }


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment variables that limit the threads of the engine's processes."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process, for children started within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def require_writable(path: Path) -> None:
    """
    Check that the engine's trace can be written, before the engine starts.

    Raises:
        ConfigError: The file is not writable.
    """
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(
            f"engine.trace: {path} is not writable; accepted: a file in an existing directory", field="engine.trace"
        )

"""How an engine is launched: options, and the arguments SGLang gets for them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tlt_common.bandit import EPSILON, SPECULATE_BELOW_REQUESTS
from tlt_common.domain.drafter import DrafterModel
from tlt_common.domain.strategy import DEFAULT_ARMS, NGRAM_BYTES, Arm
from tlt_common.errors import ConfigError
from tlt_worker.cores import share
from tlt_worker.engine.arms import launch_width, samples_drafts
from tlt_worker.engine.device import Device

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What to serve, and with how much."""

    model: Path
    """A Hugging Face directory: Llama, Qwen2 or Qwen3."""
    drafter: Path | None = None
    """A drafter to begin with; without one, speculation is off until `load_drafter`."""
    drafter_kind: DrafterModel | None = None
    """Architecture of the drafters to come. None: that of `drafter`, or EAGLE."""
    draft_vocabulary: int | None = None
    """Most tokens the head of an EAGLE-3 drafter knows. None: as many as that of `drafter`, or 32,000."""
    dtype: str = "bfloat16"
    max_running: int = 32
    max_total_tokens: int | None = None
    """Tokens the key/value cache holds. None: max_running contexts on a CPU, what fits on a GPU."""
    context_length: int | None = None
    """None: as the model says."""
    cores: tuple[int, ...] = ()
    """CPU cores of the engine's processes; empty for all."""
    tensor_parallel: int = 1
    """Devices the model is spread over, all of this machine."""
    gpu_memory: float = 0.8
    """Share of each GPU's memory for weights and key/value cache."""
    graph_bytes: int | None = None
    """Bytes of each GPU for CUDA graphs; None: a share of what gpu_memory leaves."""
    threads: int = 1
    """Threads of torch in the engine. On a CPU more than one pays for large models only."""
    arms: tuple[Arm, ...] = DEFAULT_ARMS
    epsilon: float = EPSILON
    speculate_below_requests: int = SPECULATE_BELOW_REQUESTS
    group_below_requests: Mapping[int, int] = field(default_factory=dict)
    """See `tlt_common.bandit.BanditConfig`."""
    trace: Path | None = None
    """File that rounds are written to, for `tlt tuner replay`."""
    trace_bytes: int = 2**26
    """What both files of a trace may take."""
    ngram_bytes: int = NGRAM_BYTES
    """Memory of the texts that n-gram arms retrieve from."""
    seed: int = 0
    log_level: str = "error"
    lossless: bool = True
    """False leaves SGLang's verification as it is, which is not lossless: for tests of the tests."""
    simulated_accept_length: float = 0.0
    """Above 0 SGLang pretends to accept so many tokens a round: responses are not the model's. For timing weights
    that nobody trained, in benches; no service can set it, and `EngineInfo.device` tells."""

    def __post_init__(self) -> None:
        """
        Check every field by itself.

        Raises:
            ConfigError: One is out of its range.
        """
        if self.dtype not in DTYPES:
            raise ConfigError(f"engine.dtype is {self.dtype!r}; accepted: {sorted(DTYPES)}", field="engine.dtype")
        for name in ("max_running", "threads", "tensor_parallel", "ngram_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"engine.{name} is {getattr(self, name)}; accepted: at least 1", field=f"engine.{name}"
                )


def server_arguments(
    options: EngineOptions,
    device: Device,
    context_length: int,
    drafter: Path,
    kind: DrafterModel = DrafterModel.EAGLE,
) -> dict[str, Any]:
    """Return SGLang's arguments. It is always launched with a drafter, as a chain as wide as the widest arm."""
    width = launch_width(options.arms)
    arguments: dict[str, Any] = {
        "model_path": str(options.model),
        # Token ids in and out: the detokenizer stays idle, and tokens and control answers share one socket.
        "skip_tokenizer_init": True,
        "dtype": options.dtype,
        "device": device.kind,
        # SGLang wants room for a round's drafts within the context; a request may fill ours to the end.
        "context_length": context_length + width,
        "max_running_requests": options.max_running,
        "max_total_tokens": options.max_total_tokens,
        "random_seed": options.seed,
        "log_level": options.log_level,
        "incremental_streaming_output": True,
        "weight_version": "0",
        "sleep_on_idle": True,
        "tp_size": options.tensor_parallel,
        "speculative_algorithm": kind.upper(),
        "speculative_draft_model_path": str(drafter),
        "speculative_num_steps": width - 1,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": width,
        # Drafts are sampled and verified by rejection: longer accepted runs than with the drafter's best token
        # (7.1 instead of 5.4 for a chain of 7 at temperature 1, tiny reasoner), and as lossless.
        "speculative_use_rejection_sampling": options.lossless and samples_drafts(options.arms),
    }
    if device.kind == "cpu":
        if options.max_total_tokens is None:
            # Slots of two rounds are reserved per request: the one that runs and the one being prepared.
            arguments["max_total_tokens"] = options.max_running * (context_length + 2 * width)
        arguments |= {"attention_backend": "intel_amx", "sampling_backend": "pytorch", "disable_cuda_graph": True}
    else:
        arguments["mem_fraction_static"] = options.gpu_memory
        # The shape of the launch is no arm's: arms capture their own (`graphs.Graphs`).
        arguments["disable_decode_cuda_graph"] = True
        if any(arm.topk > 1 for arm in options.arms):
            # What SGLang itself chooses for a launch with trees; for chains it may choose a backend that has none.
            arguments |= {"attention_backend": "flashinfer", "page_size": 1}
    return arguments


def rank_variables(options: EngineOptions, device: Device) -> dict[str, str]:
    """Environment with which several ranks share a CPU: gloo carries what NCCL does between GPUs."""
    if device.kind != "cpu" or options.tensor_parallel == 1:
        return {}
    cores = options.cores or tuple(sorted(os.sched_getaffinity(0)))
    shares = (
        share(cores, per_worker=None, replicas=options.tensor_parallel, rank=rank)
        for rank in range(options.tensor_parallel)
    )
    return {
        "SGLANG_CPU_OMP_THREADS_BIND": "|".join(",".join(map(str, sorted(mine))) for mine in shares),
        # torch brings a libnccl, and SGLang would take the sight of it for a GPU.
        "SGLANG_NCCL_SO_PATH": "none",
    }


def thread_variables(threads: int) -> dict[str, str]:
    """Environment that bounds the threads of the engine's processes."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the children started meanwhile. The environment is the whole process's."""
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

"""
Stand-ins for what TltGeneration meets of NeMo-RL, which is not on PyPI: NVIDIA-NeMo/RL at commit 7ea279abfb.

`make trainers` holds the adapter to the real ones, where their sources are at hand.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

COMMIT = "7ea279abfbeb698b092856d0dab61e7cf39bc909"


class BatchedDataDict(UserDict[str, Any]):
    """nemo_rl/distributed/batched_data_dict.py: a dictionary of columns."""


class GenerationInterface(ABC):
    """nemo_rl/models/generation/interfaces.py: names and signatures."""

    @abstractmethod
    def init_collective(self, ip: str, port: int, world_size: int, *, train_world_size: int) -> list[Any]: ...
    @abstractmethod
    def generate(self, data: Any, greedy: bool) -> Any: ...
    @abstractmethod
    def prepare_for_generation(self, *args: Any, **kwargs: Any) -> bool: ...
    @abstractmethod
    def finish_generation(self, *args: Any, **kwargs: Any) -> bool: ...
    @abstractmethod
    def shutdown(self) -> bool: ...
    @property
    @abstractmethod
    def requires_kv_scale_sync(self) -> bool: ...
    @abstractmethod
    def prepare_refit_info(self, state_dict_info: dict[str, Any]) -> None: ...
    @abstractmethod
    def update_weights_via_ipc_zmq(self) -> list[Any]: ...
    @abstractmethod
    def update_weights_from_collective(self) -> list[Any]: ...
    @abstractmethod
    def get_collective_sender_spec(self) -> Any: ...
    @abstractmethod
    def get_inference_world_size(self) -> int | None: ...
    @abstractmethod
    def prepare_nccl_reshard_refit_info(self, refit_info: dict[str, Any]) -> None: ...
    @abstractmethod
    def nccl_reshard_refit(self) -> list[Any]: ...
    @abstractmethod
    def attach_fleet_health(self, monitor: Any, selector: Any) -> None: ...
    @abstractmethod
    def invalidate_kv_cache(self) -> bool: ...
    @abstractmethod
    def blocks_training(self) -> bool: ...
    @abstractmethod
    def wake_carries_weight_updates(self) -> bool: ...
    @abstractmethod
    def clear_logger_metrics(self) -> None: ...
    @abstractmethod
    def get_logger_metrics(self) -> dict[str, Any]: ...


class WeightSynchronizer(ABC):
    """nemo_rl/weight_sync/interfaces.py: names and signatures."""

    @abstractmethod
    def sync_weights(self, *, timer: Any = None, kv_scales: dict[str, float] | None = None) -> Any: ...
    @property
    @abstractmethod
    def is_stale(self) -> bool: ...
    @abstractmethod
    def init_communicator(self) -> None: ...
    @abstractmethod
    def shutdown(self) -> None: ...


class CheckpointEngine(ABC):
    """nemo_rl/utils/checkpoint_engines/base.py: names and signatures."""

    shard_expert_weights: bool = False

    @abstractmethod
    def get_target_weight_layout(self) -> dict[str, Any] | None: ...
    @abstractmethod
    def prepare(self) -> Any: ...
    @abstractmethod
    def init_policy_process_group(
        self, *, worker_rank: int, train_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> None: ...
    @abstractmethod
    def init_rollout_process_group(
        self, *, rollout_rank: int, train_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> None: ...
    @abstractmethod
    def finalize(self) -> None: ...
    @abstractmethod
    async def send_weights(self, weights: Any) -> None: ...
    @abstractmethod
    def receive_weight_batches(self) -> AsyncGenerator[list[Any], None]: ...


class PolicyWorker:
    """nemo_rl/models/policy/workers/checkpoint_engine.py: what PolicyCheckpointEngineMixin does with a class's path."""

    def __init__(self, rank: int, weights: Callable[[], Iterator[tuple[str, Any]]]) -> None:
        self.rank, self._weights = rank, weights
        self.engine: Any = None

    def checkpoint_engine_rpc(self, checkpoint_method: str, method_kwargs: dict[str, Any]) -> None:
        if checkpoint_method == "init_checkpoint_engine":
            module, name = method_kwargs["backend"].split(":")
            options = method_kwargs["engine_kwargs"]
            self.engine = getattr(import_module(module), name)(
                bucket_size=method_kwargs["bucket_size_bytes"], **options
            )
        elif checkpoint_method == "init_checkpoint_engine_process_group":
            self.engine.init_policy_process_group(worker_rank=self.rank, **method_kwargs)
        elif checkpoint_method == "send_weights_via_checkpoint_engine":
            assert method_kwargs == {"kv_scales": None}
            asyncio.run(self.engine.send_weights(self._weights()))
        else:
            raise AttributeError(checkpoint_method)


class WorkerGroup:
    """nemo_rl/distributed/worker_groups.py: RayWorkerGroup without Ray. What it returns is called to wait for it."""

    def __init__(self, workers: Sequence[PolicyWorker]) -> None:
        self.workers = workers

    def run_all_workers_single_data(self, method_name: str, **kwargs: Any) -> list[Callable[[], Any]]:
        return [lambda worker=worker: getattr(worker, method_name)(**kwargs) for worker in self.workers]  # type: ignore[misc]


class Policy:
    """nemo_rl/models/policy/lm_policy.py: a policy of two workers."""

    def __init__(self, weights: Callable[[], Iterator[tuple[str, Any]]], **cfg: Any) -> None:
        self.cfg = cfg
        self.worker_group = WorkerGroup([PolicyWorker(rank, weights) for rank in range(2)])

    def prepare_refit_info(self) -> dict[str, Any]:
        return {}


def refit_policy_generation(policy: Any, policy_generation: Any) -> dict[str, float]:
    """nemo_rl/algorithms/grpo.py: its first lines, which a generation with a synchronizer does not get past."""
    assert policy is not None
    return policy_generation.weight_synchronizer.sync_weights(timer=None, kv_scales=None) or {}


def waited(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Stand in for `ray.get`."""
    return [call() for call in calls]


def config_of(endpoint: str, **changes: Any) -> dict[str, Any]:
    """
    Return `policy.generation` as examples/configs/grpo_math_1B.yaml has it, with what the suite needs changed.

    Args:
        endpoint: host:port of the gateway.
        changes: Other values; those of `vllm_cfg` and `vllm_kwargs` are added to theirs.
    """
    transport = "tlt_suite.nemo_rl:TltWeightSender"
    vllm = {"async_engine": True, "precision": "bfloat16", "kv_cache_dtype": "auto", "max_model_len": 128}
    return {
        "backend": "vllm", "max_new_tokens": 4, "temperature": 1.0, "top_p": 1.0, "top_k": None,
        "val_temperature": 1.0, "val_top_p": 1.0, "val_top_k": None, "model_name": "tiny", "stop_token_ids": [99],
        "stop_strings": None, "colocated": {"enabled": False, "resources": {"gpus_per_node": 1, "num_nodes": None}},
        "_pad_token_id": 0, "quant_cfg": None, "real_quant": False, "refit_transport": transport,
        "refit_cfg": {transport: {"endpoint": endpoint, "wait_s": 20}},
    } | changes | {
        "vllm_cfg": vllm | {"logprobs_mode": "processed_logprobs"} | changes.get("vllm_cfg", {}),
        "vllm_kwargs": changes.get("vllm_kwargs", {}),
    }  # fmt: skip

"""Sends weights from NeMo-RL's policy workers to the suite."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

from tlt_common.errors import ConfigError
from tlt_common.integrations.connection import Connection
from tlt_common.integrations.nemo_rl.generation import TltGeneration
from tlt_common.integrations.nemo_rl.settings import KEY, TRANSPORT, options_of, require_policy_supported
from tlt_common.integrations.weights import WeightsSender

Await: TypeAlias = Callable[[Sequence[Any]], Any]


class TltWeightSynchronizer:
    """
    NeMo-RL's WeightSynchronizer for `TltGeneration`: each policy worker gathers tensors, and the first one sends them.

    All workers of the suite switch to the new weights, or none if the update fails, which raises in the trainer.
    Responses that are running continue with the new weights. Each update has the version after the one served.
    """

    def __init__(self, policy: Any, generation: TltGeneration, *, wait: Await | None = None) -> None:
        """
        Create the synchronizer. Nothing is sent before `sync_weights`.

        Args:
            policy: NeMo-RL's Policy.
            generation: Where its weights go.
            wait: Waits for the results of calls of policy workers; None: `ray.get`.

        Raises:
            ConfigError: The policy trains a draft model of its own.
        """
        require_policy_supported(policy)
        self._policy, self._generation = policy, generation
        self._wait = wait
        self._stale = True

    @property
    def is_stale(self) -> bool:
        """Whether no update has succeeded since the last attempt."""
        return self._stale

    def init_communicator(self) -> None:
        """Create the senders in the policy workers. NeMo-RL calls this once."""
        self._generation.prepare_refit_info(self._policy.prepare_refit_info())
        self._call(
            "init_checkpoint_engine",
            backend=TRANSPORT,
            bucket_size_bytes=0,
            engine_kwargs=options_of(self._generation.cfg),
        )
        # This call tells each worker its rank.
        self._call("init_checkpoint_engine_process_group", train_world_size=0, rollout_world_size=0, metadata=[])

    def sync_weights(self, *, timer: Any = None, kv_scales: Mapping[str, float] | None = None) -> dict[str, float]:
        """
        Send the policy's weights; returns once all workers serve them.

        Args:
            timer: NeMo-RL's Timer, which measures the transfer.
            kv_scales: Must be None.

        Returns:
            Metrics for NeMo-RL's log: the version of the weights.

        Raises:
            ConfigError: There are scales of an FP8 cache.
            TltError: The update failed; see `Client.publish_weights`. The previous weights stay in use. Ray wraps it.
        """
        if kv_scales is not None:
            raise ConfigError(
                "policy.generation.vllm_cfg.kv_cache_dtype: accepted: auto; scales of a KV cache are not sent",
                field="policy.generation.vllm_cfg.kv_cache_dtype",
            )
        self._stale = True
        with timer.time("prepare_for_generation/transfer_and_update_weights") if timer else nullcontext():
            self._call("send_weights_via_checkpoint_engine", kv_scales=None)
        self._stale = False
        return {"policy_version": float(self._generation.policy_version())}

    def shutdown(self) -> None:
        """Do nothing: senders keep no connection."""

    def _call(self, method: str, **arguments: Any) -> None:
        """Call a method of NeMo-RL's PolicyCheckpointEngineMixin in all policy workers, and wait for it."""
        wait = self._wait
        if wait is None:
            import ray

            wait = ray.get
        wait(
            self._policy.worker_group.run_all_workers_single_data(
                "checkpoint_engine_rpc", checkpoint_method=method, method_kwargs=arguments
            )
        )


class TltWeightSender:
    """Sends a policy's weights to the gateway: NeMo-RL creates one in each policy worker, by `refit_transport`."""

    shard_expert_weights = False

    def __init__(self, bucket_size: int, **options: Any) -> None:
        """
        Create the engine.

        Args:
            bucket_size: Not used: tensors are sent in pieces of a fixed size.
            options: The keys of `Connection`.

        Raises:
            ConfigError: The endpoint is missing, or a key is unknown.
        """
        del bucket_size
        self._sender = WeightsSender(Connection.of(options, key=KEY))
        self._rank: int | None = None

    def prepare(self) -> dict[str, Any]:
        """Do nothing: no buffers are needed."""
        return {}

    def finalize(self) -> None:
        """Do nothing; see `prepare`."""

    def get_target_weight_layout(self) -> None:
        """Return None: workers receive whole tensors under the names of Hugging Face's checkpoints."""

    def init_policy_process_group(self, *, worker_rank: int, **_: Any) -> None:
        """Record the rank; no group is needed."""
        self._rank = worker_rank

    def init_rollout_process_group(self, **_: Any) -> None:
        """
        Raises:
            ConfigError: Always: the suite's own workers receive the weights.
        """
        raise _of_vllm()

    async def send_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """
        Send the weights; returns once all workers serve them. All ranks must call it: they gather tensors together.

        Adapters (LoRA) arrive merged: NeMo-RL merges them into the tensors that it hands over, in their own precision.

        Raises:
            TltError: The update failed; see `WeightsSender.send`.
        """
        if self._rank == 0:
            await self._sender.send(weights, None)
        else:
            for _ in weights:
                pass

    async def receive_weight_batches(self) -> AsyncGenerator[list[tuple[str, Any]], None]:
        """See `init_rollout_process_group`."""
        raise _of_vllm()
        yield  # an asynchronous generator, as NeMo-RL expects


def create_weight_synchronizer(policy: Any, generation: TltGeneration, **_: Any) -> TltWeightSynchronizer:
    """Replace NeMo-RL's function of this name, which chooses by back end and placement; here is no choice."""
    return TltWeightSynchronizer(policy, generation)


def _of_vllm() -> ConfigError:
    return ConfigError(
        "policy.generation.refit_transport: accepted for NeMo-RL's own vLLM workers: another one; "
        f"{TRANSPORT} is for TltGeneration, which install() puts in their place",
        field="policy.generation.refit_transport",
    )

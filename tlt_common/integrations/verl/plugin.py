"""
Registers the suite with verl, which imports this module as the entry point `tlt` of `verl.plugins`.

    actor_rollout_ref.rollout.name=tlt
    actor_rollout_ref.rollout.checkpoint_engine.backend=tlt
    +actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs.tlt.endpoint=tlt-gateway:7700
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import ray
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.replica import RolloutMode, RolloutReplica, RolloutReplicaRegistry, TokenOutput

from tlt_common.errors import ConfigError
from tlt_common.integrations.connection import Connection
from tlt_common.integrations.sampling import end_tokens_of
from tlt_common.integrations.verl.server import TltServer
from tlt_common.integrations.verl.settings import require_supported
from tlt_common.integrations.weights import WeightsSender

NAME = "tlt"
KEY = "actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs.tlt"
"""Where verl's configuration has the connection."""


class TltReplica(RolloutReplica):  # type: ignore[misc]
    """A rollout replica without its own GPUs: an actor in front of the gateway."""

    async def init_standalone(self) -> None:
        """Start the actor. It requests no GPUs from Ray, since the suite's workers have them."""
        self.rollout_mode = RolloutMode.STANDALONE
        await self.launch_servers()

    async def init_hybrid(self, worker_group: Any) -> None:  # noqa: ARG002 - verl's signature
        """
        Raises:
            ConfigError: Always, as do the other modes in which rollouts use the trainer's GPUs.
        """
        raise _colocated()

    async def init_hybrid_colocated(self, worker_group: Any, resource_pool: Any) -> None:  # noqa: ARG002
        """See `init_hybrid`."""
        raise _colocated()

    async def init_colocated(self, resource_pool: Any) -> None:  # noqa: ARG002
        """See `init_hybrid`."""
        raise _colocated()

    async def launch_servers(self) -> None:
        """
        Start the actor, and connect it.

        Raises:
            ConfigError: The configuration requests an unsupported feature; the message names it.
        """
        if self.is_reward_model or self.is_teacher_model:
            raise ConfigError(f"rollout.name={NAME} serves the policy only; use another for reward and teacher models")
        require_supported(self.config, self.model_config)
        connection = Connection.of(self.config.checkpoint_engine.engine_kwargs.get(NAME, {}), key=KEY)
        actor: Any = ray.remote(TltServer)
        server = actor.options(
            name=f"tlt_server_{self.replica_rank}{self.name_suffix}", max_concurrency=self.max_concurrency
        ).remote(
            connection,
            prompt_length=self.config.prompt_length,
            response_length=self.config.response_length,
            ignore_eos=self.config.ignore_eos,
            end_token_ids=end_tokens_of(
                getattr(self.model_config, "tokenizer", None), getattr(self.model_config, "generation_config", None)
            ),
            output=TokenOutput,
        )
        endpoint = await server.launch.remote()
        self._server_handle = server
        self._server_address = f"{endpoint}#{self.replica_rank}"  # verl tells replicas apart by their addresses
        # verl calls these for each update; the actor answers in place of workers that would receive weights.
        self.servers = self.workers = [server]


@CheckpointEngineRegistry.register(NAME)
class TltCheckpointEngine(CheckpointEngine):  # type: ignore[misc]
    """Sends the trainer's weights to the gateway, from rank 0."""

    def __init__(self, bucket_size: int, is_master: bool = False, **options: Any) -> None:
        """
        Create the engine.

        Args:
            bucket_size: Not used: tensors are sent in pieces of a fixed size.
            is_master: Whether this rank sends.
            options: The keys of `Connection`.

        Raises:
            ConfigError: The endpoint is missing, or a key is unknown.
        """
        del bucket_size
        self._sender = WeightsSender(Connection.of(options, key=KEY)) if is_master else None

    def prepare(self) -> dict[str, Any]:
        """Do nothing: no buffers or groups are needed."""
        return {}

    @classmethod
    def build_topology(
        cls,
        actor_wg_world_size: int,  # noqa: ARG003 - verl's signature
        rollout_world_size: int,  # noqa: ARG003
        metadata: list[dict[str, Any]],  # noqa: ARG003
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Return no arguments for `init_process_group`."""
        return {}, {}

    def init_process_group(self, **kwargs: Any) -> None:
        """Do nothing; see `prepare`."""

    def finalize(self) -> None:
        """Do nothing; see `prepare`."""

    async def send_weights(self, weights: Iterable[tuple[str, Any]], global_steps: int | None = None) -> dict[str, int]:
        """
        Send the weights; returns once all workers serve them. All ranks must call it: they gather tensors together.

        Returns:
            Metrics for verl's log: the published version, on the sending rank.

        Raises:
            TltError: The update failed; see `WeightsSender.send`.
        """
        if self._sender is None:
            for _ in weights:
                pass
            return {}
        return {"rollout/policy_version": await self._sender.send(weights, global_steps)}

    async def receive_weights(self, global_steps: int | None = None) -> AsyncGenerator[tuple[str, Any], None]:
        """
        Raises:
            ConfigError: Always: the suite's own workers receive the weights.
        """
        del global_steps
        raise ConfigError(f"checkpoint_engine.backend={NAME} is for rollout.name={NAME}", field="rollout.name")
        yield  # an asynchronous generator, as verl expects


def _colocated() -> ConfigError:
    return ConfigError(
        f"rollout.name={NAME} has workers of its own; accepted: trainers with standalone rollouts, such as "
        "trainer.v1.trainer_mode=separate_async with actor_rollout_ref.hybrid_engine=False",
        field="actor_rollout_ref.hybrid_engine",
    )


RolloutReplicaRegistry.register(NAME, lambda: TltReplica)

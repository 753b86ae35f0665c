"""Replaces NeMo-RL's VllmGeneration: the methods of its GenerationInterface."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, NoReturn

from tlt_common.client import BlockingClient, Client, SamplingParams, TokenChunk
from tlt_common.errors import ConfigError, InvalidRequestError
from tlt_common.integrations.nemo_rl.requests import GenerationRow, output_of, rows_of, sampling_of
from tlt_common.integrations.nemo_rl.settings import GENERATION, TRANSPORT, connection_of, require_supported
from tlt_common.integrations.siblings import grouped


class TltGeneration:
    """
    NeMo-RL's generation, by the workers of the suite. Needs no GPU of NeMo-RL's cluster.

    Weights are sent by its `weight_synchronizer`, a `TltWeightSynchronizer`; NeMo-RL's other transports are refused.
    Copies in other processes, such as that of NeMo-RL's trajectory collector, connect by themselves.
    """

    def __init__(self, cluster: Any, config: Mapping[str, Any], *, defer_model_load: bool = False) -> None:
        """
        Create the back end. It connects at the first call.

        Args:
            cluster: NeMo-RL's virtual cluster for generation; not used, and its GPUs are not claimed.
            config: NeMo-RL's `policy.generation`.
            defer_model_load: Must be False. NeMo-RL sets it for NeMo-Gym.

        Raises:
            ConfigError: A setting is not supported, or the connection is missing; the message names it.
            InvalidRequestError: A sampling parameter is not supported or out of range.
        """
        del cluster
        if defer_model_load:
            raise ConfigError(
                "env.should_use_nemo_gym: accepted: false; NeMo-Gym calls vLLM's own servers",
                field="env.should_use_nemo_gym",
            )
        require_supported(config)
        sampling_of(config, None, max_new_tokens=config["max_new_tokens"], greedy=False)
        self.cfg = config
        self.weight_synchronizer: Any = None
        """How NeMo-RL sends weights; its `refit_policy_generation` prefers this to its own transports."""
        self._connection = connection_of(config)
        self._connecting = threading.Lock()
        self._client: BlockingClient | None = None
        self._context_length = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process is created from; it has no part in sending weights."""
        return {"config": self.cfg}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Create a copy; see `__getstate__`."""
        TltGeneration.__init__(self, None, state["config"])

    @staticmethod
    def init_cluster_placement_groups(cluster: Any, config: Mapping[str, Any]) -> None:
        """Claim no GPUs: workers are not in NeMo-RL's cluster."""

    def generate(self, data: Any, greedy: bool = False) -> Any:
        """
        Generate one response for each row of a batch, blocking. Equal rows next to each other are samples of a prompt.

        Args:
            data: NeMo-RL's GenerationDatumSpec, in a BatchedDataDict.
            greedy: Whether to take the most probable token instead of sampling.

        Returns:
            NeMo-RL's GenerationOutputSpec, in a BatchedDataDict.

        Raises:
            AbortedError: A response was aborted.
            InvalidRequestError: The batch contains something other than text, or a parameter is not supported.
            UnavailableError: Gateway or workers are not ready in time.
        """
        client = self._connected()
        rows = self._rows(data, greedy=greedy)
        pending = client.submit(lambda inner: _responses(inner, rows))
        try:
            return output_of(data, pending.result(), pad=self.cfg["_pad_token_id"])
        finally:
            pending.cancel()  # of an interrupted caller; a finished one is left as it is

    async def generate_async(self, data: Any, greedy: bool = False) -> AsyncGenerator[tuple[int, Any], None]:
        """
        Generate one response, in any event loop. Closing the iterator or cancelling aborts the request.

        Args:
            data: As for `generate`, with one row at most.
            greedy: As for `generate`.

        Yields:
            0 and the GenerationOutputSpec of the row.

        Raises:
            InvalidRequestError: There are several rows, or one of the reasons of `generate`.
            AbortedError, UnavailableError: As for `generate`.
        """
        if (count := len(data["input_ids"])) > 1:
            raise InvalidRequestError(
                f"input_ids has {count} rows; accepted: one per call of generate_async", field="input_ids"
            )
        if not count:
            return
        client = await asyncio.to_thread(self._connected)
        rows = self._rows(data, greedy=greedy)
        responses = await asyncio.wrap_future(client.submit(lambda inner: _responses(inner, rows)))
        yield 0, output_of(data, responses, pad=self.cfg["_pad_token_id"])

    def policy_version(self) -> int:
        """Return the version of the weights that are served."""
        return self._connected().info().policy_version

    def prepare_for_generation(self, *_: Any, **__: Any) -> bool:
        """Do nothing: workers always serve."""
        return True

    def finish_generation(self, *_: Any, **__: Any) -> bool:
        """Do nothing: the trainer's GPUs are not used, and workers that idle train the drafter."""
        return True

    def shutdown(self) -> bool:
        """Close the connection. Idempotent. Workers go on."""
        with self._connecting:
            if self._client is not None:
                self._client.close()
                self._client = None
        return True

    @property
    def requires_kv_scale_sync(self) -> bool:
        """False: scales of an FP8 cache are refused."""
        return False

    def prepare_refit_info(self, state_dict_info: dict[str, Any]) -> None:
        """Do nothing: names and shapes are sent with the tensors."""

    def invalidate_kv_cache(self) -> bool:
        """Do nothing: what was cached under other weights is never used."""
        return True

    def blocks_training(self) -> bool:
        """Return False: training does not wait for generation."""
        return False

    def wake_carries_weight_updates(self) -> bool:
        """Return False: weights are always sent."""
        return False

    def get_inference_world_size(self) -> None:
        """Return None: no process group includes the workers."""

    def clear_logger_metrics(self) -> None:
        """Do nothing; see `get_logger_metrics`."""

    def get_logger_metrics(self) -> dict[str, Any]:
        """Return no metrics of vLLM; the suite exports its own."""
        return {}

    def init_collective(self, ip: str, port: int, world_size: int, *, train_world_size: int) -> NoReturn:
        """
        Raises:
            ConfigError: Always, as do NeMo-RL's other ways of sending weights.
        """
        del ip, port, world_size, train_world_size
        raise _transport("NCCL")

    def update_weights_from_collective(self) -> NoReturn:
        """See `init_collective`."""
        raise _transport("NCCL")

    def get_collective_sender_spec(self) -> NoReturn:
        """See `init_collective`."""
        raise _transport("NCCL")

    def update_weights_via_ipc_zmq(self) -> NoReturn:
        """See `init_collective`."""
        raise _transport("CUDA IPC")

    def prepare_nccl_reshard_refit_info(self, refit_info: dict[str, Any]) -> NoReturn:
        """See `init_collective`."""
        del refit_info
        raise _transport("nccl_reshard")

    def nccl_reshard_refit(self) -> NoReturn:
        """See `init_collective`."""
        raise _transport("nccl_reshard")

    def attach_fleet_health(self, monitor: Any, selector: Any) -> NoReturn:
        """
        Raises:
            ConfigError: Always: gateways watch their workers.
        """
        del monitor, selector
        raise ConfigError(
            "async_rl.generation_fleet_health.enabled: accepted: false; gateways route around workers that fail",
            field="async_rl.generation_fleet_health.enabled",
        )

    def _connected(self) -> BlockingClient:
        with self._connecting:  # NeMo-RL calls from many threads
            if self._client is None:
                client = self._connection.blocking_client()
                try:
                    self._context_length = client.wait_ready(self._connection.wait_s).context_length
                except BaseException:
                    client.close()
                    raise
                self._client = client
            return self._client

    def _rows(self, data: Any, *, greedy: bool) -> list[GenerationRow]:
        context = min(self._context_length, self.cfg["vllm_cfg"]["max_model_len"])
        return rows_of(data, self.cfg, greedy=greedy, context_length=context)


async def _responses(client: Client, rows: Sequence[GenerationRow]) -> list[TokenChunk | None]:
    """Return the response of each row. Rows with the same parameters are one batch."""
    alike: dict[SamplingParams, list[int]] = {}
    for at, row in enumerate(rows):
        if row.sampling is not None:
            alike.setdefault(row.sampling, []).append(at)
    found: list[TokenChunk | None] = [None] * len(rows)

    async def answer(sampling: SamplingParams, places: Sequence[int]) -> None:
        prompts, samples = grouped([rows[at].prompt for at in places], len(places))
        answers = await client.batch(prompts, samples, sampling)
        for at, response in zip(places, (one for of_prompt in answers for one in of_prompt), strict=True):
            found[at] = response

    try:
        async with asyncio.TaskGroup() as tasks:
            for sampling, places in alike.items():
                tasks.create_task(answer(sampling, places))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None  # one of the client's own, as callers expect
    return found


def _transport(name: str) -> ConfigError:
    return ConfigError(
        f"{GENERATION}.refit_transport: accepted: {TRANSPORT}; weights are not sent over {name}",
        field="policy.generation.refit_transport",
    )

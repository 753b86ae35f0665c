"""
Rollouts for TRL's AsyncGRPOTrainer (written for TRL 1.16.0), without vLLM: one object for both of its protocols.

    rollouts = TltAsyncRollouts("localhost:7700", dataset=dataset, tokenizer=tokenizer, reward_funcs=[...],
                                num_generations=8, sampling=SamplingParams(max_new_tokens=2048), max_staleness=4)
    trainer = AsyncGRPOTrainer(model, args=AsyncGRPOConfig(max_staleness=4, token_budget=8192, ...),
                               train_dataset=dataset, rollout_worker=rollouts, weight_transfer=rollouts)

Requests that run while weights are published continue with the new ones. A group is labeled with the oldest version of
the policy that sampled one of its tokens, so `max_staleness` of the trainer bounds how old any token is. Give the same
number here: the engines then end a response as soon as the trainer would drop it.

Tools and environments are given here, too, since TRL hands them to its own rollout worker only.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from os import PathLike
from typing import Any, Unpack

from tlt_common.client import BlockingClient, Client, ClientOptions, SamplingParams
from tlt_common.client.adapters import adapter_of
from tlt_common.errors import AbortedError, InvalidRequestError, UnavailableError
from tlt_common.integrations.trl.chat import ChatTokenizer, Tool
from tlt_common.integrations.trl.environments import Environments, Factory
from tlt_common.integrations.trl.groups import EpisodeGroup, Reward, samples_of
from tlt_common.integrations.trl.installed import note_queued, sample_class
from tlt_common.integrations.trl.play import Play

STOP_S = 30.0
"""Time limit for the thread to end; reward functions that run then are not interrupted."""
PAUSE_S = 0.05


class TltAsyncRollouts:
    """
    Implements TRL's RolloutWorkerProtocol and WeightTransferProtocol.

    Attributes:
        rollout_buffer: TRL's RolloutSamples, in the order in which their groups were scored.
        metrics_queue: Measurements for TRL's log.
    """

    def __init__(
        self,
        endpoint: str | Sequence[str],
        *,
        dataset: Any,
        tokenizer: Any,
        reward_funcs: Sequence[Reward] = (),
        num_generations: int,
        sampling: SamplingParams,
        max_staleness: int | None = None,
        tools: Sequence[Tool] = (),
        environment_factory: Factory | Mapping[str, Factory] | None = None,
        max_tool_calling_iterations: int | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        groups_in_flight: int = 4,
        max_buffered: int = 64,
        adapter_base: str | PathLike[str] | None = None,
        wait_s: float = 300.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        """
        Create the object. It connects when training begins.

        Args:
            endpoint: host:port of the gateway, or several of gateways that are replicas.
            dataset: Rows with the column `prompt`, text or a conversation; read again from the start at its end.
            tokenizer: Tokenizes prompts and decodes responses.
            reward_funcs: As for TRL's trainers; called in threads. May be empty if environments have rewards.
            num_generations: Responses per prompt.
            sampling: Sampling parameters of every response. With tools or environments, `max_new_tokens` is required
                and limits a whole conversation, tool results included. With a seed, each response has its own, derived
                from it.
            max_staleness: The trainer's `max_staleness`. A response whose first token would be further behind the
                served weights is ended, and its group dropped; both count as `sample/dropped_stale_total`. None sets no
                limit.
            tools: Functions that responses may call, as for TRL's trainers; called in threads.
            environment_factory: As for TRL's trainers: creates objects whose methods responses may call.
            max_tool_calling_iterations: Maximum number of tool calls per conversation; None sets no limit.
            chat_template_kwargs: Further arguments of the chat template.
            groups_in_flight: Number of prompts generated concurrently.
            max_buffered: Maximum number of samples that wait for the trainer. At the maximum, generation pauses.
            adapter_base: The weights that the adapter of an attached trainer was trained on, as `base` of
                `Client.publish_adapter`. None: its base_model_name_or_path.
            wait_s: Seconds to wait for the gateway and the first worker.
            options: Those of `Client`. The token needs the scopes generate and update_weights.

        Raises:
            InvalidRequestError: An argument is out of range; the message names it.
        """
        environments = Environments(environment_factory) if environment_factory else None
        uses_tools = bool(tools or environments)
        self._rewarding = environments.rewarding if environments else []
        if num_generations < 2:
            raise InvalidRequestError("num_generations must be at least 2", field="num_generations")
        if not (reward_funcs or self._rewarding):
            raise InvalidRequestError("reward_funcs is empty; accepted: at least one", field="reward_funcs")
        if uses_tools and sampling.max_new_tokens is None:
            raise InvalidRequestError(
                "sampling.max_new_tokens is None; accepted with tools: a number", field="sampling.max_new_tokens"
            )
        signature(Client).bind(endpoint, **options)  # now, and not when training begins
        self._endpoint, self._options = endpoint, options
        self._dataset, self._reward_funcs = dataset, tuple(reward_funcs)
        self._play = Play(
            chat=ChatTokenizer(tokenizer, uses_tools=uses_tools, options=chat_template_kwargs),
            sampling=sampling,
            samples=num_generations,
            tools=tuple(tools),
            environments=environments,
            max_calls=max_tool_calling_iterations,
            max_staleness=max_staleness,
        )
        self._groups_in_flight, self._wait_s = groups_in_flight, wait_s
        self.rollout_buffer: queue.Queue[Any] = queue.Queue(max_buffered)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue(4096)
        self._client: BlockingClient | None = None
        self._trainer: Any = None
        self._adapter_base = adapter_base
        self._published = 0
        self._offset = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._progress_s = time.monotonic()

    def init_weight_transfer(self) -> None:
        """
        Connect.

        Raises:
            UnavailableError: Gateway or workers were not ready in time.
        """
        self._client = BlockingClient(self._endpoint, **self._options)
        self._published = self._client.wait_ready(self._wait_s).policy_version

    def pause(self) -> None:
        """Do nothing: weights are replaced between two rounds of the engines."""

    def resume(self) -> None:
        """Do nothing; see `pause`."""

    def send_weights(self, iterator: Iterator[tuple[str, Any]]) -> None:
        """
        Publish the weights; returns once all workers use them.

        Raises:
            InvalidRequestError: The adapter of an attached trainer is sharded, or its base is unknown.
            StaleVersionError: Another trainer publishes weights to the same fleet.
            WeightsError: The weights do not fit the model.
        """
        if self._client is None:
            raise UnavailableError("weights are sent before init_weight_transfer")
        if (adapter := self._adapter()) is None:
            state = {name: tensor.detach() for name, tensor in iterator}
            self._client.publish_weights(self._published + 1, state)
        else:
            deque(iterator, maxlen=0)  # of merged tensors: all ranks gather them together
            self._client.publish_adapter(self._published + 1, adapter, base=self._adapter_base)
        self._published += 1

    def attach(self, trainer: Any) -> None:
        """
        Publish only the adapter if this trainer's model is a PEFT model. Otherwise TRL merges it, and all weights are
        sent. Call it before training.
        """
        self._trainer = trainer

    def _adapter(self) -> tuple[Any, Mapping[str, Any]] | None:
        if self._trainer is None:
            return None
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        if not hasattr(model, "peft_config"):
            return None
        config, tensors = adapter_of(model)
        if name := next((name for name, tensor in tensors.items() if hasattr(tensor, "full_tensor")), None):
            raise InvalidRequestError(
                f"tensor {name} of the adapter is sharded (FSDP2); accepted: without attach, so that TRL merges it",
                field="trainer",
            )
        return config, {name: tensor.detach() for name, tensor in tensors.items()}

    def destroy(self) -> None:
        """Close the connection for weights. Idempotent."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def update_model_version(self, model_version: int) -> None:
        """Record the trainer's version number of the last published weights."""
        self._offset = self._published - model_version

    def start(self) -> None:
        """
        Start generating. Idempotent.

        Raises:
            InvalidRequestError: The installed TRL lacks the protocols of this class; the message names a version that
            has them.
        """
        if self._thread is None:
            sample_class()  # here, where the trainer's user sees why
            self._progress_s = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="tlt-rollouts", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Abort running generations and stop. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
            self._thread = None

    def check_health(self, stale_after_s: float) -> None:
        """
        Raises:
            UnavailableError: Generation failed, or no sample finished in this time although the buffer has room.
        """
        if self._failure is not None:
            raise UnavailableError(f"rollouts ended: {self._failure}") from self._failure
        silent_s = time.monotonic() - self._progress_s
        if silent_s > stale_after_s and not self.rollout_buffer.full():
            raise UnavailableError(f"no group of responses finished for {silent_s:.0f} s")

    def _run(self) -> None:
        try:
            asyncio.run(self._generate())
        except BaseException as error:  # noqa: BLE001 - told to the trainer, which polls check_health
            self._failure = _first(error)

    async def _generate(self) -> None:
        rows = enumerate(_repeated(self._dataset))
        threads = ThreadPoolExecutor(self._groups_in_flight * self._play.samples, thread_name_prefix="tlt-tool")
        asyncio.get_running_loop().set_default_executor(threads)  # no tool waits for another
        async with Client(self._endpoint, **self._options) as client, asyncio.TaskGroup() as tasks:
            lanes = [tasks.create_task(self._lane(client, rows)) for _ in range(self._groups_in_flight)]
            while not self._stopping.is_set():  # noqa: ASYNC110 - set by the trainer's thread
                await asyncio.sleep(PAUSE_S)
            for lane in lanes:
                lane.cancel()

    async def _lane(self, client: Client, rows: Iterator[tuple[int, Any]]) -> None:
        """Generate one group after another."""
        for index, row in rows:
            began_s = time.monotonic()
            try:
                episodes = await self._play.group(client, index, row)
            except AbortedError:
                if self._play.max_staleness is None:
                    raise
                self._tell({"sample/dropped_stale_total": float(self._play.samples)})
                self._progress_s = time.monotonic()
                continue
            group = EpisodeGroup(index=index, row=row, episodes=episodes, offset=self._offset)
            samples = await samples_of(group, self._reward_funcs, self._rewarding)
            self._tell({"rollout/duration_s": time.monotonic() - began_s})
            for sample in samples:
                await self._put(sample)

    async def _put(self, sample: Any) -> None:
        while True:
            try:
                note_queued(sample, time.time())
                self.rollout_buffer.put_nowait(sample)
            except queue.Full:
                await asyncio.sleep(PAUSE_S)
            else:
                self._progress_s = time.monotonic()
                return

    def _tell(self, metrics: dict[str, float]) -> None:
        if not self.metrics_queue.full():  # a trainer that does not log loses numbers, not rollouts
            self.metrics_queue.put_nowait(metrics)


def _first(error: BaseException) -> BaseException:
    """Return the root error of a task, without its exception groups."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _repeated(dataset: Any) -> Iterator[Any]:
    while True:
        row = None
        for row in dataset:
            yield row
        if row is None:
            raise InvalidRequestError("dataset is empty; accepted: at least one row", field="dataset")

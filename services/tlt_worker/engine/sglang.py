"""Implements the `Engine` protocol with SGLang."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tlt_common.domain.arm import OFF, Arm
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError, DrainingError, EngineError, TltError
from tlt_common.processes.guard import Guard
from tlt_common.start_phase import enter
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.capacity.memory.memory import require_room
from tlt_worker.checkpoints import drafter
from tlt_worker.checkpoints import policy as weights
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import with_architecture
from tlt_worker.checkpoints.read_ahead import require_numbers
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.control import Control
from tlt_worker.engine.device import Device, detect, gpu_memory
from tlt_worker.engine.launch import (
    DTYPES,
    environment,
    launched,
    rank_variables,
    require_writable,
    server_arguments,
    thread_variables,
)
from tlt_worker.engine.link_reader import LinkReader
from tlt_worker.engine.planning import log_held, log_plan, plan_of
from tlt_worker.engine.policy_load import PolicyFiles
from tlt_worker.engine.response import Response, sglang_params
from tlt_worker.engine.stall_watch import end_of, watch_of
from tlt_worker.engine.thread import LoopThread, close_sockets
from tlt_worker.engine.warming.run import warm_up
from tlt_worker.engine_config import CAPTURE_QUEUE_BYTES, EngineConfig
from tlt_worker.experiment import NONE, Experiment
from tlt_worker.link.messages import DrafterLoaded, ForceArms, PolicyLoaded, StartReport
from tlt_worker.link.request_id import sglang_rid
from tlt_worker.link.settings import LINK_VARIABLE, MODELS_PACKAGE, SIMULATION_VARIABLE, LinkSettings
from tlt_worker.link.stop_strings import TOKENIZER
from tlt_worker.link.worker_end import WorkerEnd
from tlt_worker.model.files import require_model
from tlt_worker.model.routing import Routing

START_REPORT_S = 20.0
"""Timeout of the scheduler's start report in seconds, once SGLang is ready."""

SCORED_TOKENS = 256
"""
Prompt tokens whose logits are computed at once for their log-probabilities. SGLang's 2048 would take up to three
tensors of 1.2 GiB with a vocabulary of 152k, which the memory plan does not have; these take less than the verification
of as many drafts.
"""

SIMULATED = ", acceptance simulated: responses are not the model's"
"""Appended to `EngineInfo.device` if acceptance is simulated."""


class SglangEngine:
    """One SGLang engine and its processes. See `base.Engine` for the contract."""

    warms: ClassVar[bool] = True
    """Whether it warms up before it is ready: runs everything that is compiled on first use."""

    def __init__(
        self,
        model: Path,
        config: EngineConfig,
        experiment: Experiment = NONE,
        *,
        tensors: weights.ModelTensors | None = None,
        trains: bool = False,
        phase_file: Path | None = None,
    ) -> None:
        """
        Create an engine, which `start` launches.

        Args:
            model: Directory of the model.
            config: Configuration of the engine.
            experiment: Settings for benchmarks and tests.
            tensors: Result of `require_model`. None makes `start` check the model's files.
            trains: Whether a spot trainer runs on the same device.
            phase_file: File for the phases of the start; None only logs them.
        """
        self.model, self.config = model, config
        self._experiment, self._trains, self._phase_file = experiment, trains, phase_file
        self._device: Device = detect()
        self._model_config = read_config(model)
        self._routing = Routing.of(self._model_config) if config.return_routed_experts else None
        self._served = PolicyFiles(directory=model, version=PolicyVersion(0))
        self._tensors = tensors or weights.ModelTensors(headers={})
        self._form: DrafterFormat | None = None
        self._arms: tuple[Arm, ...] = (OFF,)
        self._directory = Path(tempfile.mkdtemp(prefix="tlt-engine-"))
        self._thread = LoopThread("tlt-engine")
        self._guard: Guard | None = None
        self._link: WorkerEnd | None = None
        self._reader: LinkReader | None = None
        self._control: Control | None = None
        self._running: set[RequestId] = set()
        self._is_closed = False

    @property
    def child_pids(self) -> tuple[int, ...]:
        """Ids of the processes SGLang started."""
        return tuple(self._need_control().child_pids())

    async def start(self) -> EngineInfo:
        config = await asyncio.to_thread(with_architecture, self.config, self.model)
        if not self._tensors.headers:
            self._tensors = await asyncio.to_thread(require_model, self.model, config)
        await asyncio.to_thread(require_numbers, self.model)
        if config.trace is not None:
            require_writable(config.trace)
        form, first = await asyncio.to_thread(drafter.first_drafter, config, self._model_config)
        plan = plan_of(config, self._device, self._model_config, drafter=form, trains=self._trains)
        self._form, self._arms = form, plan.plan.arms
        log_plan(plan)
        if plan.division is not None:
            require_room(
                weights.loaded_bytes(self._tensors.headers, plan.profile.dtype),
                gpu_bytes=gpu_memory(),
                tensor_parallel=config.tensor_parallel,
                gpu_memory=plan.division.weights_limit,
            )
        try:
            report = await self._thread.block(partial(self._launch, plan))
        except TltError:
            await self.aclose()
            raise
        self._reader = LinkReader(self._need_link(), queue_bytes=CAPTURE_QUEUE_BYTES)
        self._reader.start()
        info = EngineInfo(
            model=self.model.name,
            vocab_size=int(self._model_config["vocab_size"]),
            context_length=self.config.context_for(self._model_config),
            hidden_size=report.hidden_size,
            max_running=report.max_running,
            finds_stop_strings=(self.model / TOKENIZER).is_file(),
            releasable=config.releasable,
            returns_routed_experts=self._routing is not None,
            devices=config.tensor_parallel if self._device.kind == "cuda" else 1,
            device=self._device.describe() + (SIMULATED if self._experiment.simulates else ""),
            kv_tokens=report.max_total_tokens,
            memory_gib=report.gib,
            drafter_bytes=report.drafter_bytes,
            memory_over_plan=log_held(plan, report.gib),
        )
        if self.warms and (self._device.kind == "cuda" or self._experiment.compiles):
            enter("warming up", self._phase_file)
            try:
                await warm_up(self, self._need_link(), info, self._largest(plan, report.max_running))
            except TltError:
                await self.aclose()
                raise
        if first:
            enter("loading the drafter", self._phase_file)
            await self._load_drafter(first, DrafterVersion(1))
        elif form.is_targets_own:
            self._need_link().send(DrafterLoaded(version=DrafterVersion(0)))
        return info

    async def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        if self._is_closed:
            raise DrainingError("the engine has ended")
        control, loop = self._need_control(), asyncio.get_running_loop()
        outputs: asyncio.Queue[dict[str, Any] | TltError] = asyncio.Queue()
        control.generate(
            prompt,
            params=sglang_params(prompt, self.model),
            deliver=lambda output: loop.call_soon_threadsafe(outputs.put_nowait, output),
        )
        self._running.add(prompt.request_id)
        response = Response(prompt=prompt, routing=self._routing, forced=self._experiment.simulates)
        is_finished = False
        try:
            while not is_finished:
                output = await outputs.get()
                is_finished = isinstance(output, TltError) or output["meta_info"]["finish_reason"] is not None
                if isinstance(output, TltError):
                    raise output
                yield response.chunk(output)
        finally:
            self._running.discard(prompt.request_id)
            if not is_finished:
                control.abort(sglang_rid(prompt.request_id))

    async def abort(self, request_id: RequestId) -> bool:
        if request_id not in self._running:
            return False
        self._need_control().abort(sglang_rid(request_id))
        return True

    async def check_weights(self, directory: Path) -> int:
        return await asyncio.to_thread(self._tensors.check, directory)

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        await self.check_weights(directory)
        started_s = time.perf_counter()
        policy = PolicyFiles(directory=directory, version=version)
        await self._need_control().load_policy(policy, served=self._served)
        self._served = policy
        self._need_link().send(PolicyLoaded())
        return time.perf_counter() - started_s

    async def load_drafter(self, directory: Path, version: DrafterVersion) -> float:
        tensors = await asyncio.to_thread(drafter.next_drafter, directory, self._need_form(), self._model_config)
        return await self._load_drafter(tensors, version)

    async def _load_drafter(self, tensors: drafter.Tensors, version: DrafterVersion) -> float:
        started_s = time.perf_counter()
        await self._need_control().load_drafter(tensors)
        self._need_link().send(DrafterLoaded(version=version))
        return time.perf_counter() - started_s

    async def release_memory(self, tags: Sequence[str]) -> None:
        await self._need_control().release_memory(tags)

    async def resume_memory(self, tags: Sequence[str]) -> None:
        control = self._need_control()
        await control.resume_memory(tags)
        if "weights" in tags and self._device.kind == "cpu":  # SGLang restores a GPU's from the host's memory
            await control.load_policy(self._served, served=self._served)

    def frame_batches(self) -> AsyncIterator[tuple[EncodedFrame, ...]]:
        return self._need_reader().frames.batches()

    async def reports(self) -> AsyncIterator[RoundReport]:
        async with aclosing(self._need_reader().reports.batches()) as batches:
            async for batch in batches:
                for report in batch:
                    yield report

    @property
    def frames_used(self) -> float:
        return self._need_reader().frames.used

    def set_capture(self, policy: CapturePolicy) -> None:
        self._need_link().send(policy)

    def set_posterior(self, posterior: Posterior) -> None:
        self._need_link().send(posterior)

    def force_arms(self, *names: str) -> None:
        accepted = [arm.name for arm in self._arms]
        if unknown := [name for name in names if name not in accepted]:
            raise ConfigError(f"unknown arm {unknown[0]!r}; accepted: {accepted}", field="engine.arms")
        self._need_link().send(ForceArms(names=names))

    async def died(self) -> str:
        watch = watch_of(self._need_control(), self._need_link(), self.config.stall_s, self._device.kind)
        return await end_of(self._need_control(), watch)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._control is not None:
            self._control.close()
        if self._guard is not None:
            await asyncio.to_thread(self._guard.close)
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)
        if self._link is not None:
            self._link.close()
        self._thread.close()
        close_sockets()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self, plan: EnginePlan) -> StartReport:
        """Start SGLang. Runs on the engine's thread and blocks it while the model loads."""
        config, device = plan.resolved(self.config), self._device
        settings = LinkSettings(
            directory=str(self._directory),
            device=device.kind,
            engine=config,
            experiment=self._experiment,
            architecture=self._need_form().architecture,
            layers=self._need_form().layers,
            graph_sizes=self._graph_sizes(plan) if device.kind == "cuda" else {},
            fits_upto={arm.name: batch for arm, batch in plan.max_batch.items()},
            phase_file=self._phase_file,
        )
        self._link, self._guard = WorkerEnd(settings), Guard(self._directory)
        launch, form = self._directory / "drafter", self._need_form()
        drafter.write_launch_drafter(launch, form, self.model, DTYPES[plan.profile.dtype])
        device.enter()
        variables = {
            **device.variables(),
            **plan.profile.variables(),
            **rank_variables(config, device),
            **thread_variables(config.threads),
            **self._guard.variables,
            LINK_VARIABLE: settings.to_json(),
            "SGLANG_EXTERNAL_MODEL_PACKAGE": MODELS_PACKAGE,
            # Off rounds do not write the drafter's KV cache; `draft_worker.TltDraftWorker` completes it afterwards.
            "SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND": "1",
            # Drafts may extend beyond the model's last position; they are never accepted there.
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",
            "SGLANG_LOGPROB_CHUNK_SIZE": str(SCORED_TOKENS),
        }
        if self._experiment.compiles:
            variables["TORCHDYNAMO_DISABLE"] = "0"
        if self._experiment.simulates:
            variables[SIMULATION_VARIABLE] = str(self._experiment.simulated_accept_length)
        with environment(variables):
            arguments = server_arguments(
                self.model,
                config,
                plan.profile,
                context_length=config.context_for(self._model_config),
                drafter=launch,
                architecture=form.architecture,
                experiment=self._experiment,
            )
            self._control = launched(arguments, failure=settings.failure, phase_file=self._phase_file)
        report = self._link.receive(START_REPORT_S)
        if not isinstance(report, StartReport):
            raise EngineError("SGLang started without our plug-in; install the package with its entry points")
        if report.failure:
            raise EngineError(report.failure)
        return report

    def _largest(self, plan: EnginePlan, max_running: int) -> dict[Arm, int]:
        """Return the largest number of running requests at which each arm may be chosen."""
        limits, most = self.config.bandit, max_running + 1
        return {
            arm: min(plan.max_batch.get(arm, max_running), int(min(limits.below_requests(arm), most)) - 1)
            for arm in plan.plan.arms
        }

    def _graph_sizes(self, plan: EnginePlan) -> dict[str, dict[str, tuple[int, ...]]]:
        shared = self._experiment.shares_graphs
        return {arm.name: plan.captures(arm, shared=shared) for arm in plan.plan.arms}

    def _need_form(self) -> DrafterFormat:
        if self._form is None:
            raise EngineError("the engine is not running")
        return self._form

    def _need_control(self) -> Control:
        if self._control is None or self._is_closed:
            raise EngineError("the engine is not running")
        return self._control

    def _need_link(self) -> WorkerEnd:
        if self._link is None or self._is_closed:
            raise EngineError("the engine is not running")
        return self._link

    def _need_reader(self) -> LinkReader:
        if self._reader is None:
            raise EngineError("the engine is not running")
        return self._reader

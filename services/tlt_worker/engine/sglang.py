"""SGLang behind the `Engine` protocol."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from tlt_common.domain.drafter import DrafterModel
from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.strategy import OFF
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_common.errors import ConfigError, EngineError, TltError, WeightsError
from tlt_common.telemetry.log import get_logger
from tlt_worker.engine import drafter, weights
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.control import Control
from tlt_worker.engine.device import Device, detect, gpu_memory
from tlt_worker.engine.form import DrafterForm
from tlt_worker.engine.guard import Guard
from tlt_worker.engine.launch import (
    DTYPES,
    EngineOptions,
    environment,
    rank_variables,
    server_arguments,
    thread_variables,
)
from tlt_worker.engine.link import (
    LINK_VARIABLE,
    DrafterLoaded,
    ForceArms,
    LinkSettings,
    PolicyLoaded,
    StartReport,
    WorkerEnd,
)
from tlt_worker.engine.planning import context_length_of, plan_of
from tlt_worker.engine.plugin import SIMULATION_VARIABLE
from tlt_worker.engine.pump import Pump
from tlt_worker.engine.response import Response, sglang_params
from tlt_worker.engine.rid import sglang_rid
from tlt_worker.engine.room import require_room
from tlt_worker.engine.thread import LoopThread
from tlt_worker.engine.trace import require_writable
from tlt_worker.graphs.engine_plan import EnginePlan
from tlt_worker.model_config import read_config

log = get_logger(__name__)

START_REPORT_S = 20.0
"""Longest wait for the scheduler's start-up report once SGLang says that it is ready."""

SIMULATED = ", acceptance simulated: responses are not the model's"
"""Said of an engine whose acceptance is pretended."""


class SglangEngine:
    """One SGLang engine and its processes. See `base.Engine` for the contract."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._device: Device = detect()
        self._config = read_config(options.model)
        self._headers: dict[str, weights.TensorHeader] = {}
        self._form: DrafterForm | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="tlt-engine-"))
        self._thread = LoopThread("tlt-engine")
        self._guard: Guard | None = None
        self._link: WorkerEnd | None = None
        self._pump: Pump | None = None
        self._control: Control | None = None
        self._running: set[RequestId] = set()
        self._is_closed = False

    @property
    def child_pids(self) -> tuple[int, ...]:
        """Processes SGLang started."""
        return tuple(self._need_control().child_pids())

    async def start(self) -> EngineInfo:
        try:
            self._headers = weights.read_headers(self.options.model)
        except WeightsError as error:
            raise ConfigError(error.message, field="engine.model") from error
        if self.options.trace is not None:
            require_writable(self.options.trace)
        options = self.options
        form, first = await asyncio.to_thread(
            drafter.first_drafter, options.drafter, self._config, options.drafter_kind, options.draft_vocabulary
        )
        plan = plan_of(options, self._device, self._config, states=max(1, len(form.layers)))
        self._form = form
        if self._device.kind == "cuda":
            log.info("graphs_planned", bytes=plan.plan.bytes, dropped=len(plan.plan.dropped))
            require_room(
                weights.loaded_bytes(self._headers, self.options.dtype),
                gpu_bytes=gpu_memory(),
                tensor_parallel=self.options.tensor_parallel,
                gpu_memory=self.options.gpu_memory,
            )
        try:
            report = await self._thread.block(partial(self._launch, plan))
        except TltError:
            await self.aclose()
            raise
        self._pump = Pump(self._need_link(), asyncio.get_running_loop())
        self._pump.start()
        if first:
            await self._load_drafter(first, DrafterVersion(1))
        return EngineInfo(
            model=self.options.model.name,
            vocab_size=int(self._config["vocab_size"]),
            context_length=context_length_of(self.options, self._config),
            hidden_size=report.hidden_size,
            max_running=report.max_running,
            device=self._device.describe() + (SIMULATED if self.options.simulated_accept_length > 0 else ""),
        )

    async def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        control, loop = self._need_control(), asyncio.get_running_loop()
        outputs: asyncio.Queue[dict[str, Any] | TltError] = asyncio.Queue()
        control.generate(
            rid=sglang_rid(prompt.request_id),
            token_ids=[*prompt.token_ids, *prompt.prefix_token_ids],
            params=sglang_params(prompt),
            deliver=lambda output: loop.call_soon_threadsafe(outputs.put_nowait, output),
        )
        self._running.add(prompt.request_id)
        response, is_finished = Response(prompt=prompt), False
        try:
            while not is_finished:
                output = await outputs.get()
                if isinstance(output, TltError):
                    is_finished = True
                    raise output
                chunk = response.chunk(output)
                is_finished = chunk.finish_reason is not None
                yield chunk
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
        weights.compare(self._headers, await asyncio.to_thread(weights.read_headers, directory))
        return weights.total_bytes(directory)

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        await self.check_weights(directory)
        started_s = time.perf_counter()
        await self._need_control().load_policy(directory, version)
        self._need_link().send(PolicyLoaded())
        return time.perf_counter() - started_s

    async def load_drafter(self, directory: Path, version: DrafterVersion) -> float:
        tensors = await asyncio.to_thread(drafter.next_drafter, directory, self._need_form(), self._config)
        return await self._load_drafter(tensors, version)

    async def _load_drafter(self, tensors: drafter.Tensors, version: DrafterVersion) -> float:
        started_s = time.perf_counter()
        await self._need_control().load_drafter(tensors)
        self._need_link().send(DrafterLoaded(version=version))
        return time.perf_counter() - started_s

    def frames(self) -> AsyncIterator[HiddenFrame]:
        return self._need_pump().frames.take()

    def reports(self) -> AsyncIterator[RoundReport]:
        return self._need_pump().reports.take()

    def set_capture(self, policy: CapturePolicy) -> None:
        self._need_link().send(policy)

    def set_posterior(self, posterior: Posterior) -> None:
        self._need_link().send(posterior)

    def force_arms(self, *names: str) -> None:
        accepted = [arm.name for arm in dict.fromkeys((OFF, *self.options.arms))]
        if unknown := [name for name in names if name not in accepted]:
            raise ConfigError(f"no arm is called {unknown[0]!r}; accepted: {accepted}", field="engine.arms")
        self._need_link().send(ForceArms(names=names))

    async def died(self) -> str:
        return await self._need_control().died()

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._control is not None:
            self._control.close()
        if self._guard is not None:
            await asyncio.to_thread(self._guard.close)
        if self._pump is not None:
            await asyncio.to_thread(self._pump.close)
        if self._link is not None:
            self._link.close()
        self._thread.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self, plan: EnginePlan) -> StartReport:
        """Start SGLang. Runs on the engine's thread, for as long as the model loads."""
        options, device = self.options, self._device
        settings = LinkSettings(
            directory=str(self._directory),
            arms=options.arms,
            epsilon=options.epsilon,
            speculate_below_requests=options.speculate_below_requests,
            group_below_requests=options.group_below_requests,
            trace=str(options.trace.absolute()) if options.trace else "",
            trace_bytes=options.trace_bytes,
            seed=options.seed,
            ngram_bytes=options.ngram_bytes,
            lossless=options.lossless,
            simulated=options.simulated_accept_length > 0,
            graph_sizes={arm.name: plan.captures(arm) for arm in plan.plan.arms} if device.kind == "cuda" else {},
            fits_upto={arm.name: most for arm, most in plan.most.items()},
        )
        self._link, self._guard = WorkerEnd(settings), Guard()
        blank = self._directory / "drafter"
        form = self._need_form()
        drafter.write_blank_drafter(blank, form, self._config, DTYPES[options.dtype])
        if options.cores:
            # Children inherit the affinity of the thread that starts them, and this thread does little else.
            os.sched_setaffinity(0, options.cores)
        device.enter()
        variables = {
            **device.variables(),
            **rank_variables(options, device),
            **thread_variables(options.threads),
            **self._guard.variables,
            LINK_VARIABLE: settings.to_json(),
            # Off rounds do not write the drafter's cache; `draft.TltDraftWorker` closes the gap afterwards.
            "SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND": "1",
            # Drafts may lie beyond the last position a model knows; they are never accepted there.
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",
        }
        if options.simulated_accept_length > 0:
            variables[SIMULATION_VARIABLE] = str(options.simulated_accept_length)
        if form.kind == DrafterModel.EAGLE3:
            variables["SGLANG_EXTERNAL_MODEL_PACKAGE"] = "tlt_worker.engine.models"
        with environment(variables):
            arguments = server_arguments(options, device, context_length_of(options, self._config), blank, form.kind)
            self._control = Control.launch(arguments)
        report = self._link.receive(START_REPORT_S)
        if not isinstance(report, StartReport):
            raise EngineError("SGLang started without our plug-in; is the package installed with its entry points?")
        if report.failure:
            raise EngineError(report.failure)
        return report

    def _need_form(self) -> DrafterForm:
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

    def _need_pump(self) -> Pump:
        if self._pump is None:
            raise EngineError("the engine is not running")
        return self._pump

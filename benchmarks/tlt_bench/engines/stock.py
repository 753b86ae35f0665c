"""
Unmodified SGLang behind the `Engine` protocol, with or without its own speculation: the suite's baseline.

It receives the same arguments except those of speculation. On a GPU, settings that a device profile determines for
arms, above all the attention backend, are left to SGLang, as for a user of plain SGLang. It is driven by the same code
and has only those of the suite's hooks that it needs to run with the same kernels: the attention backend on a CPU, and
one socket for tokens and replies, because the detokenizer process is omitted.
"""

import os
from pathlib import Path
from typing import Any, ClassVar

from tlt_bench.engines.commands import StockSpeculation
from tlt_common.domain.arm import arm_named
from tlt_common.drafter.reading import format_of
from tlt_common.processes.guard import Guard
from tlt_trainer.offline.exporting import export_to
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.control import Control
from tlt_worker.engine.launch import environment, plain_arguments, rank_variables, thread_variables
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment
from tlt_worker.link.messages import StartReport
from tlt_worker.link.settings import SIMULATION_VARIABLE, LinkSettings
from tlt_worker.link.worker_end import WorkerEnd
from tlt_worker.scheduler.plugin import How, join_channels, keep_attention_backend

STOCK_VARIABLE = "TLT_STOCK_ENGINE"
"""Environment variable of a stock engine's processes. The plug-in below does nothing without it."""


class StockEngine(SglangEngine):
    """An engine without arms, drafters, capture or reports."""

    warms: ClassVar[bool] = False
    control: ClassVar[type[Control]] = Control
    """Controls SGLang."""

    def _launch(self, plan: EnginePlan) -> StartReport:
        config, device = self.config, self._device
        self._guard = Guard()
        self._link = WorkerEnd(LinkSettings(directory=str(self._directory)))
        device.enter()
        variables = {
            **device.variables(),
            **plan.profile.variables(),
            **rank_variables(config, device),
            **thread_variables(config.threads),
            **self._guard.variables,
            STOCK_VARIABLE: "1",
        }
        if self._experiment.simulates:
            variables[SIMULATION_VARIABLE] = str(self._experiment.simulated_accept_length)
        with environment(variables):
            self._control = self.control.launch(self.arguments(plan))
        return StartReport(
            failure="",
            hidden_size=int(self._model_config["hidden_size"]),
            max_running=config.max_running,
            max_total_tokens=config.max_total_tokens or 0,
        )

    def arguments(self, plan: EnginePlan) -> dict[str, Any]:
        """Return SGLang's arguments as a user of plain SGLang would pass them for this model and device."""
        config, profile = plan.resolved(self.config), plan.profile
        # As long as the suite's context, which has room for a round's drafts.
        context_length = config.context_for(self._model_config) + profile.width
        plain = plain_arguments(self.model, config, profile, context_length=context_length, experiment=self._experiment)
        return plain | profile.stock_arguments()


class SpeculatingEngine(StockEngine):
    """A stock engine with SGLang's own EAGLE or EAGLE-3."""

    def __init__(
        self, model: Path, config: EngineConfig, experiment: Experiment = NONE, *, speculation: StockSpeculation
    ) -> None:
        super().__init__(model, config, experiment)
        self._speculation = speculation

    def arguments(self, plan: EnginePlan) -> dict[str, Any]:
        arm, drafter = arm_named(self._speculation.arm), self._directory / "exported"
        export_to(str(self._speculation.drafter), drafter, "sglang")
        form = format_of(read_config(drafter), self._model_config)
        found = super().arguments(plan)
        if self._device.kind == "cpu":
            # Slots of two rounds are reserved per request: the running one and the one being prepared.
            found["max_total_tokens"] = self.config.max_running * (found["context_length"] + 2 * arm.draft_tokens)
        return found | {
            "speculative_algorithm": form.architecture.upper(),
            "speculative_draft_model_path": str(drafter),
            "speculative_num_steps": arm.steps,
            "speculative_eagle_topk": arm.topk,
            "speculative_num_draft_tokens": arm.draft_tokens,
        }


def install() -> None:
    """Register the hooks of a stock engine if this is one (entry point `sglang.srt.plugins: tlt-stock`)."""
    if STOCK_VARIABLE not in os.environ:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name, replacement in (
        ("arg_groups.overrides._attention_backend_platform_fallbacks", keep_attention_backend),
        ("managers.scheduler_components.ipc_channels.SchedulerIpcChannels.create", join_channels),
    ):
        HookRegistry.register(f"sglang.srt.{name}", replacement, HookType(How.AROUND))

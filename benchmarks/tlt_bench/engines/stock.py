"""
Unmodified SGLang without speculation behind the `Engine` protocol: the baseline for the suite's engine.

It receives the same arguments except those of speculation, and on a GPU leaves to SGLang what a device profile decides
for arms, above all the attention backend, as a user of plain SGLang does. It is driven by the same code. Of the suite's
hooks it has only those it needs to run here with the same kernels: the attention backend on a CPU, and one socket for
tokens and replies, because the detokenizer process is omitted.
"""

import os
from typing import Any, ClassVar

from tlt_common.processes.guard import Guard
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.engine.control import Control
from tlt_worker.engine.launch import environment, plain_arguments, rank_variables, thread_variables
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.link.messages import StartReport
from tlt_worker.link.settings import LinkSettings
from tlt_worker.link.worker_end import WorkerEnd
from tlt_worker.scheduler.plugin import How, join_channels, keep_attention_backend

STOCK_VARIABLE = "TLT_STOCK_ENGINE"
"""Environment variable of a stock engine's processes. The plug-in below does nothing without it."""


class StockEngine(SglangEngine):
    """An engine without arms, drafters, capture or reports."""

    control: ClassVar[type[Control]] = Control
    """What calls SGLang."""

    def _launch(self, plan: EnginePlan) -> StartReport:
        config, device = self.config, self._device
        self._guard = Guard()
        self._link = WorkerEnd(LinkSettings(directory=str(self._directory)))
        device.enter()
        variables = {
            **device.variables(),
            **rank_variables(config, device),
            **thread_variables(config.threads),
            **self._guard.variables,
            STOCK_VARIABLE: "1",
        }
        with environment(variables):
            self._control = self.control.launch(self.arguments(plan))
        return StartReport(
            failure="",
            hidden_size=int(self._model_config["hidden_size"]),
            max_running=config.max_running,
            max_total_tokens=config.max_total_tokens or 0,
        )

    def arguments(self, plan: EnginePlan) -> dict[str, Any]:
        """Return SGLang's arguments: those a user of plain SGLang would pass for this model on this device."""
        config, profile = plan.resolved(self.config), plan.profile
        # As long as the suite's context, which has room for a round's drafts.
        context_length = config.context_for(self._model_config) + profile.width
        plain = plain_arguments(self.model, config, profile, context_length=context_length, experiment=self._experiment)
        return plain | profile.stock_arguments()


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

"""
SGLang as it comes, without speculation, behind our `Engine` protocol: what benches measure our engine against.

It gets the same arguments without the speculative ones, and is driven by the same code. Of our hooks it has those
without which it would not run here on the same kernels: the attention backend on a CPU, and one socket for tokens and
answers, since the detokenizer process is left out.
"""

import os

from tlt_worker.engine.control import Control
from tlt_worker.engine.guard import Guard
from tlt_worker.engine.launch import environment, rank_variables, server_arguments, thread_variables
from tlt_worker.engine.link import LinkSettings, StartReport, WorkerEnd
from tlt_worker.engine.planning import context_length_of
from tlt_worker.engine.plugin import How, join_channels, keep_attention_backend
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.graphs.engine_plan import EnginePlan

STOCK_VARIABLE = "TLT_STOCK_ENGINE"
"""Set in the environment of a stock engine's processes. Without it the plug-in below does nothing."""


class StockEngine(SglangEngine):
    """An engine without arms, drafters, capture or reports."""

    def _launch(self, plan: EnginePlan) -> StartReport:
        del plan
        options, device = self.options, self._device
        self._guard = Guard()
        self._link = WorkerEnd(LinkSettings(directory=str(self._directory)))
        if options.cores:
            os.sched_setaffinity(0, options.cores)
        device.enter()
        variables = {
            **device.variables(),
            **rank_variables(options, device),
            **thread_variables(options.threads),
            **self._guard.variables,
            STOCK_VARIABLE: "1",
        }
        arguments = server_arguments(options, device, context_length_of(options, self._config), self._directory)
        ours = ("speculative_", "disable_decode_cuda_graph")
        plain = {name: value for name, value in arguments.items() if not name.startswith(ours)}
        with environment(variables):
            self._control = Control.launch(plain)
        return StartReport(
            failure="",
            hidden_size=int(self._config["hidden_size"]),
            max_running=options.max_running,
            max_total_tokens=options.max_total_tokens or 0,
        )


def install() -> None:
    """Register what a stock engine needs, if this is one (entry point `sglang.srt.plugins: tlt-stock`)."""
    if STOCK_VARIABLE not in os.environ:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name, replacement in (
        ("arg_groups.overrides._attention_backend_platform_fallbacks", keep_attention_backend),
        ("managers.scheduler_components.ipc_channels.SchedulerIpcChannels.create", join_channels),
    ):
        HookRegistry.register(f"sglang.srt.{name}", replacement, HookType(How.AROUND))

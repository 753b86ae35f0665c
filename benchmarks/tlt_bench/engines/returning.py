"""Unmodified SGLang with requests that may return hidden states, as a collector of training data would use it."""

from typing import Any

from tlt_bench.engines.stock import StockEngine
from tlt_common.domain.prompt import Prompt
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.engine.control import Control, Deliver
from tlt_worker.link.messages import StartReport
from tlt_worker.link.request_id import sglang_rid


class ReturningControl(Control):
    """Responses arrive at their end, since SGLang repeats all states so far with every part of a streamed response."""

    returns = False
    """Whether requests return states."""

    async def _stream(self, prompt: Prompt, params: dict[str, Any], deliver: Deliver) -> None:
        output = await self._engine.async_generate(
            input_ids=[*prompt.token_ids, *prompt.prefix_token_ids],
            sampling_params=params,
            return_logprob=True,
            return_hidden_states=self.returns,
            stream=False,
            rid=sglang_rid(prompt.request_id),
        )
        if self.returns:
            states = output["meta_info"]["hidden_states"]
            assert len(states) >= len(output["output_ids"]) - 1, "SGLang returned no states"  # noqa: S101 - as asked
        deliver(output)


class ReturningEngine(StockEngine):
    """A stock engine that can return states."""

    control = ReturningControl

    def arguments(self, plan: EnginePlan) -> dict[str, Any]:
        return super().arguments(plan) | {"enable_return_hidden_states": True}

    def _launch(self, plan: EnginePlan) -> StartReport:
        report = super()._launch(plan)
        assert isinstance(self._control, ReturningControl)  # noqa: S101 - see `control`
        return report

    def return_states(self, *, enabled: bool) -> None:
        """Enable or disable the return of states for later requests."""
        control = self._need_control()
        assert isinstance(control, ReturningControl)  # noqa: S101 - see `control`
        control.returns = enabled

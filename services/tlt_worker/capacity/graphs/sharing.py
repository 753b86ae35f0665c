"""Sharing of captured graphs between arms of equal shape. Pure: captures are opaque objects of the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tlt_common.domain.arm import Arm, arm_named
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of

STATE_FIELDS = {
    Stage.VERIFY: ("target_attn_backend", "target_graph_runner"),
    Stage.DRAFT: ("draft_attn_backend", "cuda_graph_runner"),
    Stage.EXTEND: ("draft_extend_attn_backend", "cuda_graph_runner_for_draft_extend"),
}
"""Fields of SGLang's `SpecRuntimeState` by stage: graphs, and the attention backend they were captured with."""

Sizes = Mapping[str, Mapping[str, Sequence[int]]]
"""Batch sizes to capture, by arm name and stage."""


@dataclass(slots=True, kw_only=True)
class GraphSharing:
    """Captures of one engine, which captures one arm after the other."""

    sizes: Sizes
    shares: bool = True
    """False makes every arm capture its own graphs."""
    queries: int = 0
    """Tokens per request in one pass of a block drafter."""
    _made: dict[Runner | tuple[str, Runner], dict[str, Any]] = field(default_factory=dict)

    def due(self, arm: Arm, stage: Stage) -> tuple[int, ...]:
        """Return the batch sizes this arm must capture: none if none are planned or an earlier arm captured them."""
        runner = next((runner for runner in runners_of(arm) if runner.stage is stage), None)
        if runner is None or self._key(arm, runner) in self._made:
            return ()
        return tuple(self.sizes.get(arm.name, {}).get(stage, ()))

    def share(self, arm: Arm, state: Any) -> None:
        """
        Store the objects created for this arm, and set in its state the objects created for earlier arms of its shape.

        A separate attention backend would use memory even without captured graphs. On a CPU nothing is shared.
        """
        for runner in runners_of(arm) if self.sizes else ():
            own = {name: getattr(state, name) for name in STATE_FIELDS[runner.stage]}
            for name, value in self._made.setdefault(self._key(arm, runner), own).items():
                setattr(state, name, value)

    def _key(self, arm: Arm, runner: Runner) -> Runner | tuple[str, Runner]:
        return runner if self.shares else (arm.name, runner)

    def logit_rows(self) -> int:
        """
        Return the rows of logits that the widest graph of any arm writes.

        Off has graphs even if it is not configured.
        """
        width = {Stage.EXTEND: 1, Stage.DRAFT: self.queries or 1}
        rows = [
            max(sizes) * width.get(runner.stage, runner.draft_tokens)
            for name, by_stage in self.sizes.items()
            for runner in runners_of(arm_named(name))
            if (sizes := by_stage.get(runner.stage))
        ]
        return max(rows, default=0)

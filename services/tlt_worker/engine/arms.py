"""
The arms an engine can run, and switching between them.

An engine is launched at its widest arm; a state per arm (attention backends, and on a GPU the captured graphs) is
built once, and switching swaps the state. Memory for new tokens is reserved before the arm of a round is chosen, so
the reservation always stays at the widest arm's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tlt_common.domain.strategy import OFF, Arm
from tlt_common.errors import ConfigError


def widest(arms: Sequence[Arm]) -> Arm:
    """
    Return the arm an engine is launched with.

    Raises:
        ConfigError: No arm drafts, or one is a tree.
    """
    drafting = [arm for arm in arms if arm.steps > 0]
    if not drafting:
        raise ConfigError("engine.arms has no arm that drafts; accepted: at least one chain", field="engine.arms")
    trees = [arm.name for arm in drafting if arm.topk != 1 or arm.draft_tokens != arm.steps + 1]
    if trees:
        # Trees need a draft top-k per arm and verification without sampled drafts (`sampling.accept_tree`).
        raise ConfigError(f"engine.arms has {trees}; accepted: chains", field="engine.arms")
    return max(drafting, key=lambda arm: arm.draft_tokens)


@dataclass(slots=True)
class ArmStates:
    """One engine state per arm. `worker` is SGLang's EAGLE worker, `override` its configuration's."""

    worker: Any
    override: Any
    arms: tuple[Arm, ...]
    current: Arm = OFF
    _states: dict[Arm, Any] = field(default_factory=dict)

    def build(self) -> None:
        """Build the states; leaves the widest arm current, as the engine was launched."""
        for arm in (OFF, *self.arms):
            if arm not in self._states:
                self._states[arm] = self.worker.build_adaptive_runtime_state(arm.steps, arm.draft_tokens)
        self.current = widest(self.arms)
        self._keep_reservation()

    def named(self, name: str) -> Arm:
        """
        Find an arm by name.

        Raises:
            ConfigError: No arm has that name.
        """
        for arm in self._states:
            if arm.name == name:
                return arm
        raise ConfigError(f"no arm is called {name!r}; accepted: {[arm.name for arm in self._states]}")

    def switch(self, arm: Arm) -> None:
        """Make `arm` current."""
        if arm == self.current:
            return
        self.worker.apply_runtime_state(self._states[arm])
        self._keep_reservation()
        self.current = arm

    def _keep_reservation(self) -> None:
        most = widest(self.arms)
        self.override(
            "tlt.reservation", speculative_num_steps=most.steps, speculative_num_draft_tokens=most.draft_tokens
        )

"""
The arms an engine can run, and switching between them.

A state per arm (attention backends, and on a GPU the captured graphs) is built once; switching swaps the state. Memory
for new tokens is reserved before the arm of a round is known, so the engine is launched as a chain that writes as many
slots as the widest arm, and what an arm changes in SGLang's configuration holds for its round only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tlt_common.domain.strategy import OFF, Arm
from tlt_common.errors import ConfigError


def launch_width(arms: Sequence[Arm]) -> int:
    """
    Return how many slots of a request a round may write: draft tokens of the target, or branches times steps.

    An engine that never drafts is launched as if it drafted one token: SGLang's worker needs a shape.
    """
    drafting = [arm for arm in arms if arm.steps > 0]
    return max((max(arm.draft_tokens, arm.steps * arm.topk) for arm in drafting), default=2)


def samples_drafts(arms: Sequence[Arm]) -> bool:
    """Whether some arm draws its drafts from the drafter's distribution."""
    return any(arm.sampled for arm in arms)


class ArmRunner(Protocol):
    """The worker whose arms are switched."""

    def build_state(self, arm: Arm) -> Any:
        """Make what `arm` needs, under its settings."""
        ...

    def use(self, arm: Arm, state: Any) -> None:
        """Go on with a state that was built."""
        ...


@dataclass(slots=True, kw_only=True)
class ArmStates:
    """One engine state per arm. `override` changes SGLang's configuration for as long as the context lasts."""

    worker: ArmRunner
    override: Callable[..., AbstractContextManager[Any]]
    arms: tuple[Arm, ...]
    rejects: bool
    """Whether verification is by rejection where drafts are sampled."""
    current: Arm | None = None
    """None until the first round: the shape the engine was launched with is no arm."""
    _states: dict[Arm, Any] = field(default_factory=dict)

    def build(self) -> None:
        """Build the states."""
        for arm in dict.fromkeys((OFF, *self.arms)):
            with self._settings(arm):
                self._states[arm] = self.worker.build_state(arm)

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

    @contextmanager
    def running(self, arm: Arm) -> Iterator[None]:
        """Make `arm` current, with its settings while the context lasts."""
        if arm != self.current:
            self.worker.use(arm, self._states[arm])
            self.current = arm
        with self._settings(arm):
            yield

    def _settings(self, arm: Arm) -> AbstractContextManager[Any]:
        # Off verifies its one node by the same kernel as sampled chains.
        by_rejection = self.rejects and (arm.sampled or arm == OFF)
        return self.override(
            speculative_num_steps=arm.steps,
            speculative_eagle_topk=arm.topk,
            speculative_num_draft_tokens=arm.draft_tokens,
            speculative_use_rejection_sampling=by_rejection,
        )

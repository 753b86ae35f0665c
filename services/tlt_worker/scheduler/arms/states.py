"""
The arms an engine can run, and switching between them.

Each arm has a state (attention backends and, on a GPU, captured CUDA graphs), built once; switching swaps the state.
Memory for new tokens is reserved before the arm of a round is chosen, so the engine is launched with a chain that
writes as many slots as the widest arm, and an arm's changes to SGLang's configuration apply during its rounds only.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tlt_common.domain.arm import OFF, Arm
from tlt_common.errors import ConfigError


class ArmRunner(Protocol):
    """The worker whose arms are switched."""

    def build_state(self, arm: Arm) -> Any:
        """Build the state that `arm` requires, under its settings."""
        ...

    def use(self, arm: Arm, state: Any) -> None:
        """Switch to a previously built state."""
        ...


@dataclass(slots=True, kw_only=True)
class ArmStates:
    """One engine state per arm. `override` changes SGLang's configuration for the duration of a context."""

    worker: ArmRunner
    override: Callable[..., AbstractContextManager[Any]]
    arms: tuple[Arm, ...]
    rejects: bool
    """Whether sampled drafts are verified by rejection sampling."""
    current: Arm | None = None
    """The current arm; None before the first round, since the launch shape is not an arm."""
    _states: dict[Arm, Any] = field(default_factory=dict)

    def build(self) -> None:
        """Build the states."""
        for arm in dict.fromkeys((OFF, *self.arms)):
            with self._settings(arm):
                self._states[arm] = self.worker.build_state(arm)

    def named(self, name: str) -> Arm:
        """
        Return the arm with this name.

        Raises:
            ConfigError: No arm has that name.
        """
        for arm in self._states:
            if arm.name == name:
                return arm
        raise ConfigError(f"unknown arm {name!r}; accepted: {[arm.name for arm in self._states]}")

    def number(self, arm: Arm) -> int:
        """Return the number that identifies an arm on all ranks."""
        return list(self._states).index(arm)

    def numbered(self, number: int) -> Arm:
        """Return the arm with this number."""
        return list(self._states)[number]

    @contextmanager
    def running(self, arm: Arm) -> Iterator[None]:
        """Switch to `arm` and apply its settings for the duration of the context."""
        if arm != self.current:
            self.worker.use(arm, self._states[arm])
            self.current = arm
        with self._settings(arm):
            yield

    def _settings(self, arm: Arm) -> AbstractContextManager[Any]:
        return self.override(
            speculative_num_steps=arm.steps,
            speculative_eagle_topk=arm.topk,
            speculative_num_draft_tokens=arm.draft_tokens,
            speculative_use_rejection_sampling=self.rejects and arm.sampled,
        )

"""Logs metrics of each step's rollouts to a trainer's logger: W&B, MLflow, trackio or TensorBoard."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any, TypeAlias

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.server_info import NO_BUBBLES, ServerInfo
from tlt_common.errors import ConfigError
from tlt_common.telemetry.optional import optional

Sink: TypeAlias = Callable[[Mapping[str, float], int], object]
"""Takes figures by name, and the step."""
LOGS = {"wandb": "log", "trackio": "log", "mlflow": "log_metrics"}
"""Modules by whose function figures are logged."""


def log_to(target: Any) -> Sink:
    """
    Return a function that logs metrics.

    Args:
        target: `wandb`, `mlflow` or `trackio`, whose run has been started; a SummaryWriter of TensorBoard; or a
            function of metrics and step.

    Raises:
        ConfigError: It is none of these, or its package is not installed.
    """
    if isinstance(target, str) and target in LOGS:
        try:
            module: Any = import_module(target)
        except ImportError as error:
            raise ConfigError(f"log: {target} is not installed", field="log") from error
        log = getattr(module, LOGS[target])
        return lambda figures, step: log(dict(figures), step=step)
    if hasattr(target, "add_scalar"):
        return lambda figures, step: [target.add_scalar(name, value, step) for name, value in figures.items()]
    if callable(target):
        return target  # type: ignore[no-any-return] # a function of the caller's
    raise ConfigError(
        f"log is {target!r:.80}; accepted: {', '.join(sorted(LOGS))}, a SummaryWriter of TensorBoard, or a function",
        field="log",
    )


class RolloutLog:
    """
    Collects metrics of responses and logs them when weights are published, which ends a step.

    Several clients may share one log. Thread-safe.
    """

    def __init__(self, target: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            target: As for `log_to`.
            clock: Returns seconds.
        """
        self._sink = log_to(target)
        self._clock = clock
        self._lock = Lock()
        self._first_tokens_per_s = 0.0
        self._ended_s = clock()
        self._bubbles = NO_BUBBLES
        self._begin()

    def _begin(self) -> None:
        self._began_s: float | None = None
        self._finished_s = 0.0
        self._lengths: list[int] = []
        self._rounds = self._accepted = self._proposed = self._prompt_tokens = self._cached = 0
        self._oldest: PolicyVersion | None = None

    def begin(self) -> None:
        """Record that a response was requested."""
        with self._lock:
            if self._began_s is None:
                self._began_s = self._clock()

    def observe(self, response: TokenChunk) -> None:
        """Record a response. Only its last chunk has statistics; others are ignored."""
        if (stats := response.stats) is None:
            return
        with self._lock:
            self._finished_s = self._clock()
            self._lengths.append(stats.completion_tokens)
            self._rounds += stats.rounds
            self._accepted += stats.accepted_draft_tokens
            self._proposed += stats.proposed_draft_tokens
            self._prompt_tokens += stats.prompt_tokens
            self._cached += stats.cached_tokens
            if response.policy_versions:
                known = () if self._oldest is None else (self._oldest,)
                self._oldest = min((*known, *response.policy_versions))

    def step(self, info: ServerInfo | None, step: int) -> None:
        """
        Log the metrics since the last step. A failure of the logger is logged instead of raised, since the weights are
        served.

        Args:
            info: State of the rollout endpoint; None if unknown.
            step: The step's number; the policy version that was published.
        """
        with self._lock:
            figures = self._of_responses() | (self._of_fleet(info, step) if info else {})
            self._begin()
        with optional("rollout log"):  # every logger raises its own: W&B's and MLflow's are no OSErrors
            self._sink({f"rollout/{name}": float(value) for name, value in figures.items()}, step)

    def _of_responses(self) -> dict[str, float]:
        if not self._lengths:
            return {"responses": 0}
        tokens = sum(self._lengths)
        seconds = 0.0 if self._began_s is None else self._finished_s - self._began_s
        figures = {
            "responses": len(self._lengths),
            "tokens": tokens,
            "tokens_mean": tokens / len(self._lengths),
            "tokens_max": max(self._lengths),
            "seconds": seconds,
        }
        with suppress(ZeroDivisionError):
            figures["tokens_per_s"] = tokens / seconds
            self._first_tokens_per_s = self._first_tokens_per_s or figures["tokens_per_s"]
            figures["speedup_vs_first_step"] = figures["tokens_per_s"] / self._first_tokens_per_s
        with suppress(ZeroDivisionError):
            figures["accept_length"] = tokens / self._rounds
        with suppress(ZeroDivisionError):
            figures["accepted_share"] = self._accepted / self._proposed
        with suppress(ZeroDivisionError):
            figures["cached_share"] = self._cached / self._prompt_tokens
        return figures

    def _of_fleet(self, info: ServerInfo, step: int) -> dict[str, float]:
        now_s, before = self._clock(), self._bubbles
        elapsed_s, self._ended_s, self._bubbles = now_s - self._ended_s, now_s, info.bubbles
        figures: dict[str, float] = {"policy_version": info.policy_version, "drafter_version": info.drafter_version}
        if self._oldest is not None:
            figures["staleness_max"] = max(0, step - 1 - self._oldest)
        bubble_s, training_s = info.bubbles.total_s - before.total_s, info.bubbles.training_s - before.training_s
        if 0 < before.total_s < info.bubbles.total_s:  # a coordinator that restarted counts from zero
            figures["bubble_utilisation"] = training_s / bubble_s
            if info.workers and elapsed_s > 0.0:
                figures["bubble_share"] = min(1.0, bubble_s / (info.workers * elapsed_s))
        return figures

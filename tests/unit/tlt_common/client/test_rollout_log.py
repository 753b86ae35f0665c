"""Figures of a step's rollouts, for a trainer's own logger. The loggers' packages are fakes of their one function."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import pytest

from tlt_common.client import ResponseStats, RolloutLog, TokenChunk
from tlt_common.client.rollout_log import LOGS, log_to
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.server_info import Bubbles, ServerInfo
from tlt_common.errors import ConfigError

INFO = ServerInfo(
    model="m",
    vocab_size=8,
    context_length=64,
    policy_version=PolicyVersion(1),
    drafter_version=DrafterVersion(3),
    workers=2,
    queued=0,
    running=0,
    server_version="0",
)
STATS = ResponseStats(
    prompt_tokens=10,
    completion_tokens=12,
    rounds=4,
    accepted_draft_tokens=8,
    proposed_draft_tokens=16,
    cached_tokens=5,
)


@dataclass
class Logged:
    now_s: float = 100.0
    steps: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        self.steps.append((step, {name.removeprefix("rollout/"): value for name, value in figures.items()}))


def response(version: int = 0, stats: ResponseStats | None = STATS) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=(1,),
        logprobs=(0.0,),
        policy_versions=(PolicyVersion(version),),
        stats=stats,
    )


@pytest.fixture
def logged() -> Logged:
    return Logged()


@pytest.fixture
def log(logged: Logged) -> RolloutLog:
    return RolloutLog(logged, clock=logged.clock)


def one_step(log: RolloutLog, logged: Logged, *, seconds: float, step: int, info: ServerInfo | None = INFO) -> None:
    log.begin()
    log.observe(response(stats=None))
    log.observe(response(step - 1))
    logged.now_s += seconds
    log.observe(response(step - 1, replace(STATS, completion_tokens=36, rounds=4)))
    logged.now_s += 1.0
    log.step(info, step)


def test_a_step_has_the_figures_of_its_responses(log: RolloutLog, logged: Logged) -> None:
    one_step(log, logged, seconds=6.0, step=1)
    ((step, figures),) = logged.steps
    assert step == 1
    assert figures == {
        "responses": 2,
        "tokens": 48,
        "tokens_mean": 24,
        "tokens_max": 36,
        "seconds": 6.0,
        "tokens_per_s": 8.0,
        "speedup_vs_first_step": 1.0,
        "accept_length": 6.0,
        "accepted_share": 0.5,
        "cached_share": 0.5,
        "policy_version": 1,
        "drafter_version": 3,
        "staleness_max": 0,
    }


def test_a_step_is_compared_with_the_first_and_counts_anew(log: RolloutLog, logged: Logged) -> None:
    one_step(log, logged, seconds=6.0, step=1)
    one_step(log, logged, seconds=2.0, step=2)
    figures = logged.steps[1][1]
    assert figures["responses"] == 2
    assert figures["speedup_vs_first_step"] == 3.0


def test_bubbles_are_those_since_the_last_step(log: RolloutLog, logged: Logged) -> None:
    log.step(replace(INFO, bubbles=Bubbles(total_s=50.0, training_s=40.0)), 1)
    logged.now_s += 10.0
    log.step(replace(INFO, bubbles=Bubbles(total_s=55.0, training_s=44.0)), 2)
    assert logged.steps[1][1]["bubble_share"] == 0.25  # 5 of 20 device-seconds
    assert logged.steps[1][1]["bubble_utilisation"] == 0.8


@pytest.mark.parametrize("after", [Bubbles(), Bubbles(total_s=3.0, training_s=1.0), Bubbles(total_s=50.0)])
def test_a_coordinator_that_is_gone_or_restarted_has_no_bubbles(
    log: RolloutLog, logged: Logged, after: Bubbles
) -> None:
    log.step(replace(INFO, bubbles=Bubbles(total_s=50.0, training_s=40.0)), 1)
    logged.now_s += 10.0
    log.step(replace(INFO, bubbles=after), 2)
    assert not {"bubble_share", "bubble_utilisation"} & logged.steps[1][1].keys()


def test_old_tokens_are_told(log: RolloutLog, logged: Logged) -> None:
    log.observe(response(2))
    log.observe(response(4))
    log.step(INFO, 5)
    assert logged.steps[0][1]["staleness_max"] == 2


def test_a_step_without_responses_or_gateway_is_logged_all_the_same(log: RolloutLog, logged: Logged) -> None:
    log.step(None, 1)
    assert logged.steps == [(1, {"responses": 0.0})]


@pytest.mark.parametrize("name", sorted(LOGS))
def test_figures_go_to_the_logger_that_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    module = ModuleType(name)
    setattr(module, LOGS[name], lambda figures, *, step: calls.append((figures, step)))
    monkeypatch.setitem(sys.modules, name, module)
    log_to(name)({"a": 1.0}, 7)
    assert calls == [({"a": 1.0}, 7)]


def test_a_logger_that_fails_fails_no_update(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Mapping[str, float], __: int) -> None:
        raise ConnectionError("the tracker is away")

    RolloutLog(fail).step(None, 7)
    assert "rollout log" in "".join(capsys.readouterr())


def test_figures_go_to_a_writer_of_tensorboard() -> None:
    class Writer:
        def __init__(self) -> None:
            self.written: list[tuple[str, float, int]] = []

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.written.append((name, value, step))

    writer = Writer()
    log_to(writer)({"a": 1.0, "b": 2.0}, 7)
    assert writer.written == [("a", 1.0, 7), ("b", 2.0, 7)]


def test_a_logger_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="wandb is not installed"):
        log_to("wandb")


@pytest.mark.parametrize("target", ["neptune", 3, None])
def test_what_is_no_logger_is_refused(target: Any) -> None:
    with pytest.raises(ConfigError, match="accepted: mlflow, trackio, wandb, a SummaryWriter"):
        log_to(target)


@pytest.mark.parametrize("versions", [(0, 3), (3, 0), (0, 0)])
def test_a_token_of_version_0_is_the_oldest(log: RolloutLog, logged: Logged, versions: tuple[int, int]) -> None:
    log.begin()
    for version in versions:
        log.observe(response(version))
    log.step(INFO, 4)
    assert logged.steps[0][1]["staleness_max"] == 3

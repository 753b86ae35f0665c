"""Journals of a run whose costs are known."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tlt_common.domain.arm import arm_named
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.response import FinishReason
from tlt_common.journal.coordinator_lines import (
    DrafterLine,
    LeaderLine,
    LeaseChange,
    LeaseLine,
    LendingLine,
    StateLine,
    TrainedLine,
    WorkerLine,
)
from tlt_common.journal.files import file_of
from tlt_common.journal.format import Header, header_line, line_of
from tlt_common.journal.gateway_lines import (
    EngineLine,
    PrefillLine,
    RequestOutcome,
    ResponseLine,
    RoundsLine,
    StayEnd,
    UpdateLine,
    WorkerStay,
)
from tlt_common.journal.line import Line
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.fit.fitting import UNKNOWN

BEGAN_S = 1_790_000_000.0
DEVICE = "cpu"


def known(value: float) -> CostFigure:
    """Return a number that is known exactly."""
    return CostFigure(value=value, source=Source.MEASURED)


COSTS: CostModel = UNKNOWN.model_copy(
    update={
        name: known(value)
        for name, value in {
            "round_fixed_s": 0.020,
            "round_request_s": 0.0005,
            "round_token_s": 0.0006,
            "kv_token_s": 1e-5,
            "draft_fixed_s": 0.002,
            "draft_token_s": 0.0002,
            "prefill_token_s": 0.001,
            "accept_start": 0.6,
            "accept_best": 0.92,
            "accept_decay": 0.9,
            "ngram_accept": 0.5,
            "learn_tokens_s": 2000.0,
            "learn_half_tokens": 50_000.0,
            "ageing": 0.01,
            "lease_start_s": 0.03,
            "lease_stop_s": 0.05,
            "drafter_load_s": 0.08,
            "update_s": 0.5,
        }.items()
    }
)
ARMS = ("off", "chain-3", "chain-7", "ngram-5")
BATCHES = (1, 2, 4, 8, 16)
STEPS, ROLLOUT_S, LEARN_S, LEARN_TOKEN_S = 8, 150.0, 3.0, 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Lines of both services."""

    gateway: tuple[Line, ...]
    coordinator: tuple[Line, ...]

    def write(self, directory: Path) -> Path:
        """Write them as journals."""
        for service, lines in (("gateway", self.gateway), ("coordinator", self.coordinator)):
            header = Header(service=service, id=service, began=BEGAN_S, part=1, suite="0.1.0")
            ordered = sorted(lines, key=lambda line: line.at)
            file_of(directory, service, service, 1).path.write_bytes(
                header_line(header) + b"".join(line_of(line) for line in ordered)
            )
        return directory

    def without(self, *kinds: type[Line]) -> "Recording":
        """Return it without lines of these kinds."""
        return replace(
            self,
            gateway=tuple(line for line in self.gateway if not isinstance(line, kinds)),
            coordinator=tuple(line for line in self.coordinator if not isinstance(line, kinds)),
        )


def recording(costs: CostModel = COSTS, *, noise: float = 0.0, seed: int = 0, arms: Iterable[str] = ARMS) -> Recording:
    """Return a comparison of so many steps, with a drafter in each and rounds of all arms and batch sizes."""
    chance = Random(seed)
    gateway: list[Line] = [
        EngineLine(at=BEGAN_S, worker=f"w{n}", device=DEVICE, slots=16, context=2048, kv_room=32_000) for n in range(2)
    ]
    coordinator: list[Line] = [LeaderLine(at=BEGAN_S, leads=True), LendingLine(at=BEGAN_S, enabled=True)]
    coordinator += [
        WorkerLine(at=BEGAN_S, worker=f"w{n}", device=DEVICE, model="m", devices=1, training_devices=1, slots=16)
        for n in range(2)
    ]
    coordinator += [StateLine(at=BEGAN_S, worker=f"w{n}", state=WorkerState.IDLE) for n in range(2)]
    at_s, learned = BEGAN_S + 1.0, 0.0
    number = 0
    for step in range(STEPS):
        for with_suite in (True, False) if step else (True,):
            seconds = ROLLOUT_S if with_suite else 2.5 * ROLLOUT_S
            if not with_suite:
                coordinator.append(LendingLine(at=at_s - 0.5, enabled=False))
            for sample in range(8):
                number += 1
                gateway.append(_response(number, step, sample, at_s, seconds, with_suite=with_suite))
            used = arms if with_suite else ("off",)
            rounds = [
                _rounds(costs, arm, batch, step, at_s + 0.8 * seconds, chance, noise)
                for arm in used
                for batch in BATCHES
                if step or not arm_named(arm).needs_drafter
            ]
            gateway += rounds
            gateway.append(
                PrefillLine(
                    at=at_s + 0.8 * seconds, device=DEVICE, tokens=300, seconds=300 * costs.prefill_token_s.value
                )
            )
            busy_s = sum(line.seconds for line in rounds) + 300 * costs.prefill_token_s.value
            coordinator += [
                StateLine(at=at_s, worker="w0", state=WorkerState.ROLLOUT),
                StateLine(at=at_s + busy_s, worker="w0", state=WorkerState.IDLE),
            ]
            at_s += seconds + 1.0
            if not with_suite:
                coordinator.append(LendingLine(at=at_s - 0.5, enabled=True))
        trained_s = 8.0
        lent_s = at_s - 0.4
        learned += trained_s * costs.learn_tokens_s.value
        free_s = lent_s + costs.lease_start_s.value + trained_s
        coordinator += [
            LeaseLine(at=lent_s, worker="w1", epoch=step + 1, change=LeaseChange.GRANTED, reason=""),
            StateLine(at=lent_s + 0.001, worker="w1", state=WorkerState.SWITCHING),
            StateLine(at=lent_s + costs.lease_start_s.value, worker="w1", state=WorkerState.TRAINING),
            StateLine(at=free_s, worker="w1", state=WorkerState.SWITCHING),
            StateLine(at=free_s + costs.lease_stop_s.value, worker="w1", state=WorkerState.IDLE),
            TrainedLine(at=free_s + 1.0, worker="w1", seconds=trained_s, steps=step + 1, tokens=round(learned),
                        passes=1.0, gain=None, load_s=costs.drafter_load_s.value),
            DrafterLine(at=free_s, version=step + 1, base=step, worker="w1", top1=0.0, base_top1=None, policy=step,
                        tokens=round(learned)),
        ]  # fmt: skip
        tokens = sum(line.tokens for line in gateway if isinstance(line, ResponseLine) and line.versions == (step,))
        tokens = tokens // 2 if step else tokens
        ended_s = max(stay.ended for line in gateway if isinstance(line, ResponseLine) for stay in line.stays)
        began = ended_s + LEARN_S + LEARN_TOKEN_S * tokens
        at_s = max(began + costs.update_s.value, free_s + 2.0)
        gateway.append(UpdateLine(at=began + costs.update_s.value, version=step + 1, began=began, done=True, workers=2))
        at_s += 1.0
    return Recording(gateway=tuple(gateway), coordinator=tuple(coordinator))


def _response(number: int, step: int, sample: int, at_s: float, seconds: float, *, with_suite: bool) -> ResponseLine:
    ended = at_s + seconds * (sample + 1) / 8
    tokens = 100 * (sample + 1) + 37 * step
    stay = WorkerStay(worker="w0", began=at_s, ended=ended, tokens=tokens, drafter=step, end=StayEnd.OVER)
    return ResponseLine(
        at=ended, number=number, group=f"g{step}-{sample // 2}", outcome=RequestOutcome.FINISHED,
        finish=FinishReason.STOP, prompt=20, prefix=0, tokens=tokens, cap=2048, cached=0, arrived=at_s,
        first=at_s + 0.1, rounds=tokens // 2, accepted=tokens // 2 if with_suite else 0,
        drafted=tokens if with_suite else 0,
        versions=(step,), stays=(stay,),
    )  # fmt: skip


def _rounds(
    costs: CostModel, name: str, batch: int, step: int, at_s: float, chance: Random, noise: float
) -> RoundsLine:
    """Return rounds with the drafter of the step before."""
    arm, rounds, kv_tokens = arm_named(name), 60, batch * (300 + 60 * step) + 7 * step
    quality = 0.0
    if step:
        learned = 8.0 * costs.learn_tokens_s.value * step
        quality = costs.quality(learned, 1)
    accepted = round(costs.accepted(arm, quality) * batch * rounds)
    seconds = rounds * costs.terms.round_s(arm, batch, kv_tokens) * (1.0 + chance.gauss(0.0, noise))
    return RoundsLine(
        at=at_s, device=DEVICE, arm=name, batch=1 << (batch.bit_length() - 1), drafter=step, policy=step, rounds=rounds,
        seconds=seconds, tokens=batch * rounds + accepted, accepted=accepted,
        drafted=max(accepted, arm.drafted_tokens * batch * rounds), kv_tokens=kv_tokens * rounds,
    )  # fmt: skip

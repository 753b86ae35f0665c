"""Rounds of a minute: each report counts once, by device, arm, batch size and versions."""

from dataclasses import replace

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.journal.format import line_of, parsed
from tlt_common.journal.gateway_lines import PrefillLine, RoundsLine
from tlt_gateway.journal.tally import RoundsTally

WINDOW = ArmWindow(
    arm="chain-3",
    group=4,
    rounds=10,
    accepted_tokens=50,
    produced_tokens=100,
    elapsed_s=0.5,
    median_reward=200.0,
    drafted_tokens=150,
    kv_tokens=9000,
)
REPORT = WorkedRounds(serial=7, arms=(WINDOW,), prefilled_tokens=300, prefill_s=0.1)


def info(name: str = "w0", **changes: object) -> WorkerInfo:
    made = WorkerInfo(
        worker_id=WorkerId(name),
        model="m",
        vocab_size=10,
        context_length=100,
        max_running=8,
        policy_version=PolicyVersion(3),
        drafter_version=DrafterVersion(2),
        running=0,
        device="H100",
    )
    return replace(made, **changes)  # type: ignore[arg-type] # fields of it


def test_reports_add_up_and_count_once() -> None:
    tally = RoundsTally()
    for _ in range(3):
        tally.add(info(), REPORT)
        tally.add(info("w1"), REPORT)
    tally.add(info(), replace(REPORT, serial=8))
    rounds, prefill = tally.lines(60.0)
    assert rounds == RoundsLine(
        at=60.0,
        device="H100",
        arm="chain-3",
        batch=4,
        drafter=2,
        policy=3,
        rounds=30,
        seconds=1.5,
        tokens=300,
        accepted=150,
        drafted=450,
        kv_tokens=27000,
    )
    assert prefill == PrefillLine(at=60.0, device="H100", tokens=900, seconds=prefill.seconds)  # type: ignore[attr-defined] # one
    assert not list(tally.lines(120.0))


def test_other_devices_arms_sizes_and_versions_are_apart() -> None:
    tally = RoundsTally()
    tally.add(info(), replace(REPORT, arms=(WINDOW, replace(WINDOW, group=8), replace(WINDOW, arm="off"))))
    tally.add(info("w1", device="A100"), REPORT)
    tally.add(info("w2", drafter_version=DrafterVersion(3)), REPORT)
    tally.add(info("w3", policy_version=PolicyVersion(4)), REPORT)
    assert sum(isinstance(line, RoundsLine) for line in tally.lines(1.0)) == 6


def test_a_worker_that_has_reported_nothing_or_counts_no_drafts_gives_valid_lines() -> None:
    tally = RoundsTally()
    tally.add(info(), NO_ROUNDS)
    assert not list(tally.lines(1.0))
    tally.add(info(), replace(REPORT, arms=(replace(WINDOW, drafted_tokens=0), replace(WINDOW, rounds=0, arm="off"))))
    rounds, _ = tally.lines(1.0)
    assert parsed("f:1", line_of(rounds), service="gateway") == rounds

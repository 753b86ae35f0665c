"""What goes over the link comes back as it was, and nothing waits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.strategy import ArmWindow, chain
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.engine import link
from tlt_worker.engine.link import (
    Down,
    DrafterLoaded,
    Dropped,
    ForceArms,
    LinkSettings,
    PolicyLoaded,
    SchedulerEnd,
    StartReport,
    Up,
    WorkerEnd,
    pack,
    unpack,
)

WINDOW = ArmWindow(
    arm="chain-3", group=4, rounds=7, accepted_tokens=9, produced_tokens=16, elapsed_s=0.25, median_reward=61.5
)
FRAME = HiddenFrame(
    request_id=RequestId("r/1"), policy_version=PolicyVersion(3), start=5, token_ids=(1, 2, 3), hidden_size=4,
    dtype="BF16", hidden=bytes(range(16)), prompt_tokens=4, response_tokens=3, finished=True,
)  # fmt: skip
MESSAGES: tuple[link.Up | Down, ...] = (
    FRAME,
    RoundReport(drafter_version=DrafterVersion(2), arms=(WINDOW, WINDOW)),
    StartReport(failure="", hidden_size=256, max_running=8, max_total_tokens=4096),
    CapturePolicy(enabled=True, sample_ratio=0.25, frame_tokens=64),
    Posterior(drafter_version=DrafterVersion(2), arms=(WINDOW,)),
    ForceArms(names=()),
    ForceArms(names=("off", "chain-3")),
    DrafterLoaded(version=DrafterVersion(4)),
    PolicyLoaded(),
    Dropped(count=3),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_as_they_were(message: link.Up | Down) -> None:
    assert unpack(pack(message)) == message


@given(
    hidden_size=st.integers(1, 8), count=st.integers(1, 5), payload=st.binary(min_size=80, max_size=80), name=st.text()
)
def test_frames_of_any_size_come_back(hidden_size: int, count: int, payload: bytes, name: str) -> None:
    frame = HiddenFrame(
        request_id=RequestId(name.encode(errors="ignore").decode()), policy_version=PolicyVersion(0), start=0,
        token_ids=tuple(range(count + 1)), hidden_size=hidden_size, dtype="F16",
        hidden=payload[: 2 * hidden_size * count], prompt_tokens=1, response_tokens=0, finished=False,
    )  # fmt: skip
    assert unpack(pack(frame)) == frame


def test_settings_survive_the_environment() -> None:
    settings = LinkSettings(directory="somewhere", arms=(chain(2), chain(5)), epsilon=0.2, lossless=False)
    assert LinkSettings.from_json(settings.to_json()) == settings


def test_both_ends_talk(tmp_path: Path) -> None:
    settings = LinkSettings(directory=str(tmp_path))
    worker, scheduler = WorkerEnd(settings), SchedulerEnd(settings)
    assert scheduler.send(FRAME)
    assert worker.receive(5.0) == FRAME
    assert worker.receive(0.0) is None
    heard: list[Down] = []
    while not heard:  # the first ones may find the line down not open yet
        worker.send(ForceArms(names=("off", "chain-3")))
        heard = scheduler.heard()
    assert heard[0] == ForceArms(names=("off", "chain-3"))
    worker.close()


def test_sending_to_an_engine_that_is_not_there_does_not_wait(tmp_path: Path) -> None:
    worker = WorkerEnd(LinkSettings(directory=str(tmp_path)))
    worker.send(ForceArms(names=("off", "chain-3")))
    worker.close()


def lost_by(message: Up | None) -> int:
    return message.count if isinstance(message, Dropped) else 0


def test_frames_nobody_reads_are_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "UP_QUEUE_MESSAGES", 4)
    settings = LinkSettings(directory=str(tmp_path))
    scheduler = SchedulerEnd(settings)  # no worker listens
    sent = [scheduler.send(FRAME) for _ in range(20)]
    lost = sent.count(False)
    assert scheduler.dropped == lost > 0
    worker, told = WorkerEnd(settings), 0
    while scheduler.dropped:  # room comes as the worker reads
        lost += not scheduler.send(FRAME)
        told += lost_by(worker.receive(5.0))
    while message := worker.receive(0.5):
        told += lost_by(message)
    assert told == lost
    worker.close()

"""What goes over the link comes back as it was, and nothing waits."""

from contextlib import closing
from pathlib import Path

import pytest

from tlt_common.codec import encode
from tlt_common.domain.arm import ArmWindow, chain
from tlt_common.domain.hidden import CapturePolicy, FrameHeader
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.link import scheduler_end, worker_end
from tlt_worker.link.messages import (
    Down,
    DrafterLoaded,
    Dropped,
    ForceArms,
    PolicyLoaded,
    StartReport,
    Up,
    pack,
    unpack,
)
from tlt_worker.link.scheduler_end import NOTHING_DROPPED, SchedulerEnd
from tlt_worker.link.settings import LinkSettings
from tlt_worker.link.worker_end import WorkerEnd

WINDOW = ArmWindow(
    arm="chain-3", group=4, rounds=7, accepted_tokens=9, produced_tokens=16, elapsed_s=0.25, median_reward=61.5
)
FRAME = encode(
    FrameHeader(
        request_id=RequestId("r/1"), policy_version=PolicyVersion(3), prompt_hash=7, start=5, token_count=2,
        hidden_size=4, dtype="BF16", prompt_tokens=4, response_tokens=3, finished=True,
    ), (1, 2, 3), [bytes(range(16))],
)  # fmt: skip
REPORT = RoundReport(drafter_version=DrafterVersion(2), arms=(WINDOW, WINDOW))
MESSAGES: tuple[Up | Down, ...] = (
    FRAME,
    REPORT,
    StartReport(failure="", hidden_size=256, max_running=8, max_total_tokens=4096, gib={"weights": 14.2}),
    CapturePolicy(enabled=True, sample_ratio=0.25, frame_tokens=64),
    Posterior(drafter_version=DrafterVersion(2), arms=(WINDOW,)),
    ForceArms(names=()),
    ForceArms(names=("off", "chain-3")),
    DrafterLoaded(version=DrafterVersion(4)),
    PolicyLoaded(),
    Dropped(frames=3, windows=2),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_as_they_were(message: Up | Down) -> None:
    assert unpack(pack(message)) == message


def test_a_frame_travels_as_it_was_encoded() -> None:
    assert pack(FRAME)[1] is FRAME.blob


def test_settings_survive_the_environment() -> None:
    settings = LinkSettings(
        directory="somewhere",
        device="cuda",
        engine=EngineConfig(arms=("chain-2", "chain-5"), group_below_requests={8: 3}, trace=Path("/t")),
        experiment=Experiment(lossless=False),
        graph_sizes={"chain-2": {"verify": (1, 2)}},
    )
    assert LinkSettings.from_json(settings.to_json()) == settings
    assert settings.arms == (chain(2), chain(5))


def test_both_ends_talk(tmp_path: Path) -> None:
    settings = LinkSettings(directory=str(tmp_path))
    with closing(WorkerEnd(settings)) as worker, closing(SchedulerEnd(settings)) as scheduler:
        assert scheduler.send(FRAME)
        assert worker.receive(5.0) == FRAME
        assert worker.receive(0.0) is None
        messages: list[Down] = []
        while not messages:  # the connection may not be open yet when the first messages are sent
            worker.send(ForceArms(names=("off", "chain-3")))
            messages = scheduler.receive()
        assert messages[0] == ForceArms(names=("off", "chain-3"))


def test_sending_to_an_engine_that_is_not_there_does_not_wait(tmp_path: Path) -> None:
    worker = WorkerEnd(LinkSettings(directory=str(tmp_path)))
    worker.send(ForceArms(names=("off", "chain-3")))
    worker.close()


def dropped_by(message: Up | None) -> list[Dropped]:
    return [message] if isinstance(message, Dropped) else []


def test_what_nobody_reads_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for end in (scheduler_end, worker_end):
        monkeypatch.setattr(end, "UP_QUEUE_MESSAGES", 4)
    settings = LinkSettings(directory=str(tmp_path))
    reported = list[Dropped]()
    with closing(SchedulerEnd(settings)) as scheduler:  # no worker listens yet
        frames = [scheduler.send(FRAME) for _ in range(20)].count(False)
        reports = [scheduler.send(REPORT) for _ in range(3)].count(False)
        assert scheduler.dropped == Dropped(frames=frames, windows=2 * reports)
        assert frames > 0
        assert reports > 0
        with closing(WorkerEnd(settings)) as worker:
            while scheduler.dropped != NOTHING_DROPPED:  # the link drains as the worker reads
                frames += not scheduler.send(FRAME)
                reported += dropped_by(worker.receive(5.0))
            while message := worker.receive(0.5):
                reported += dropped_by(message)
    assert sum(one.frames for one in reported) == frames
    assert sum(one.windows for one in reported) == 2 * reports

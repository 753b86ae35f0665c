import io
import json
from dataclasses import replace

from rich.console import Console

from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    StateChange,
    WorkerAccount,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_local.table import footer, picture, summary

BUSY = WorkerAccount(
    hello=WorkerHello(
        worker_id=WorkerId("worker-0"), address="127.0.0.1:1", model="tiny", device="cpu", max_running=16
    ),
    status=WorkerStatus(
        state=WorkerState.TRAINING,
        policy_version=PolicyVersion(4),
        drafter_version=DrafterVersion(2),
        epoch=Epoch(9),
        accept_length=3.456,
        produced_tokens=1234,
        arm="chain-7",
        training_steps=50,
        training_loss=0.25,
        trainer_ready=True,
    ),
    seconds={WorkerState.TRAINING: 3.0},
    timeline=(StateChange(state=WorkerState.TRAINING, at_unix_s=1.0),),
)
FLEET = Fleet(
    workers=(BUSY,),
    queued=3,
    drafter=DrafterWish(version=DrafterVersion(2), uri="/d"),
    drafters=(
        DrafterRecord(version=DrafterVersion(2), worker_id=WorkerId("worker-0"), at_unix_s=1.0, held_out_top1=0.71),
    ),
    lending=True,
    bubble_utilisation=0.645,
)


def seen(fleet: Fleet, *, width: int = 160) -> str:
    console = Console(width=width, record=True, file=io.StringIO())  # recorded, not shown
    console.print(picture(fleet, width=width))
    return console.export_text()


def test_the_picture_shows_who_does_what_with_which_drafter() -> None:
    text = seen(FLEET)
    for part in ("worker-0", "training", "0/16", "9", "v2", "chain-7", "3.46", "1234", "50: 0.25"):
        assert part in text


def test_the_last_line_shows_queue_drafter_and_bubbles() -> None:
    assert footer(FLEET) == "queue 3   drafter v2 (held-out top-1 0.71)   bubbles used 64%"
    unmeasured = replace(FLEET, drafters=(replace(FLEET.drafters[0], held_out_top1=0.0),))
    assert footer(unmeasured) == "queue 3   drafter v2   bubbles used 64%"
    empty = replace(FLEET, drafter=None, drafters=(), lending=False)
    assert footer(empty) == "queue 3   no drafter yet   bubbles used 64%   lending is off"


def test_a_trainer_that_rests_is_said_to() -> None:
    resting = replace(BUSY, standing="nothing to learn")
    assert "nothing to learn" in seen(replace(FLEET, workers=(resting,)))


def test_what_keeps_workers_from_training_is_said_once_for_all_of_them() -> None:
    problem = "the spot trainer does not run: model: its hidden_act is 'gelu'"
    workers = [
        replace(
            BUSY,
            hello=replace(BUSY.hello, worker_id=WorkerId(f"worker-{number}")),
            status=replace(BUSY.status, problem=problem),
        )
        for number in range(2)
    ]
    text = seen(replace(FLEET, workers=(*workers, BUSY)))
    assert f"worker-0, worker-1: {problem}" in text


def test_what_is_missing_is_a_dash_and_a_missing_trainer_is_said() -> None:
    quiet = replace(BUSY, status=WorkerStatus(state=WorkerState.DOWN))
    text = seen(replace(FLEET, workers=(quiet,)))
    assert "down" in text
    assert "not ready" in text


def test_json_holds_the_same_as_plain_values() -> None:
    fleet = json.loads(json.dumps(summary(FLEET)))
    assert fleet["workers"][0]["status"]["state"] == "training"
    assert fleet["workers"][0]["seconds"] == {"training": 3.0}
    assert fleet["bubble_utilisation"] == 0.645


def test_it_fits_into_80_columns_and_cuts_nothing() -> None:
    long = replace(BUSY, hello=replace(BUSY.hello, worker_id=WorkerId("rl-worker-group-7-abcdef-0")), standing="enough")
    text = seen(replace(FLEET, workers=(long,)), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for part in ("training", "0/16", "v2", "chain-7", "3.46", "enough"):
        assert part in text
    assert "rl-worker-group-7-abcdef-0".startswith(text.splitlines()[1].split()[0])


def test_a_worker_that_is_down_is_listed_with_since_when_and_why() -> None:
    down = replace(
        BUSY,
        status=replace(BUSY.status, state=WorkerState.DOWN, problem="its connection ended; the engine died: killed"),
        timeline=(StateChange(state=WorkerState.DOWN, at_unix_s=1_700_000_000.0),),
    )
    text = seen(replace(FLEET, workers=(down,)))
    assert "worker-0: down since " in text
    assert ":13:20: its connection ended; the engine died: killed" in text

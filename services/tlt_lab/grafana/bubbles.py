"""What became of the time in which workers had nothing to do."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.board import AnyPanel, Number, Row, board
from tlt_lab.grafana.panels import BAD, FAIR, GOOD, Query, series, states, value
from tlt_lab.grafana.queries import of, quantile, rate, recent, total

SECONDS = "tlt_worker_state_seconds_total"
STATES = {
    0: ("down", "red"),
    1: ("rollout", "green"),
    2: ("training", "blue"),
    3: ("switching", "orange"),
    4: ("updating", "purple"),
    5: ("idle", "yellow"),
}
COLOURS = dict(STATES.values())
STACKED = ("rollout", "updating", "switching", "training", "idle", "down")
"""From what workers are for, at the bottom, to what they should not be."""
BUBBLE = 'state=~"idle|switching"'
TRAINING = 'state="training"'
UP = 'state!="down"'
MONEY = "* $gpus_per_worker * $gpu_hour / 3600"

NUMBERS = (
    Number("gpu_hour", "$ per GPU-hour", "2.50", "What one GPU costs you per hour."),
    Number("gpus_per_worker", "GPUs per worker", "1", "The worker's tensor_parallel."),
)


def bubbles() -> Dashboard:
    """Utilisation of bubbles, in time and money, and every worker's state."""
    return board(
        "tlt-bubbles",
        "TLT / Bubbles",
        "Idle device time of rollouts, and how much of it trains the drafter.",
        (
            Row("In the time range shown", _figures()),
            Row("Every worker", (_timeline(), _shares(), _utilisation())),
            Row("Lending", _lending()),
        ),
        numbers=NUMBERS,
    )


def _figures() -> Sequence[AnyPanel]:
    trained = total(SECONDS, TRAINING)
    bubble = total(SECONDS, BUBBLE)
    return (
        value(
            "Bubble utilisation",
            "Training / (training + idle + switching). Below half: see Lending below for why workers are not lent. "
            "Empty: there was no bubble, which is best of all.",
            "percentunit",
            f"{trained} / ({trained} + {bubble})",
            steps=((None, BAD), (0.5, FAIR), (0.8, GOOD)),
        ),
        value(
            "Time reclaimed",
            "Worker-seconds that trained the drafter and would have been idle. Zero: is lending on, do frames arrive "
            "(TLT / Drafter)?",
            "s",
            trained,
        ),
        value(
            "Worth of it",
            "The time reclaimed at your price per GPU-hour: what training the same drafter on devices of its own would "
            "have cost. Set price and GPUs per worker above.",
            "currencyUSD",
            f"{trained} {MONEY}",
            steps=((None, GOOD),),
        ),
        value(
            "Still wasted",
            "Idle and switching time at your price. If it is large beside the time reclaimed, look whether workers are "
            "waiting for the trainer between steps: bigger or overlapping batches fill that time with rollouts.",
            "currencyUSD",
            f"{bubble} {MONEY}",
        ),
        value(
            "Workers there",
            "Workers in any state but down. Fewer than deployed: kubectl get pods -l "
            "app.kubernetes.io/component=worker.",
            "none",
            f"sum(max by (worker) ({of('tlt_worker_state', UP)}))",
        ),
        value(
            "Lending",
            "Off: nobody trains. A comparison turned it off (SetLending), or the coordinator's key lending is false.",
            "bool_on_off",
            f"max({of('tlt_lending_enabled')})",
            steps=((None, BAD), (1, GOOD)),
        ),
    )


def _timeline() -> AnyPanel:
    is_in = {number: of("tlt_worker_state", f'state="{word}"') for number, (word, _) in STATES.items()}
    codes = " + ".join(f"{number} * max by (worker) ({shown})" for number, shown in is_in.items() if number)
    return states(
        "State of every worker",
        "Yellow is a bubble nobody uses, blue one that trains the drafter, orange what changing hands costs. A worker "
        "that stays yellow while others are blue has no ready trainer: look at its log for trainer_exited.",
        Query(codes, "{{worker}}"),
        STATES,
    )


def _shares() -> AnyPanel:
    return series(
        "Workers by state",
        "How many workers were in each state. The green wedge that thins out within a step is the long tail.",
        "none",
        *(Query(rate(SECONDS, f'state="{word}"'), word) for word in STACKED),
        stacked=True,
        colours=COLOURS,
    )


def _utilisation() -> AnyPanel:
    trained, bubble = rate(SECONDS, TRAINING), rate(SECONDS, BUBBLE)
    return series(
        "Bubble utilisation",
        "Over the last minutes, and since the coordinator began. A fall that stays: see TLT / Drafter for frames and "
        "restarts of trainers.",
        "percentunit",
        Query(f"{trained} / ({trained} + {bubble})", "lately"),
        Query(f"max({of('tlt_bubble_utilisation_ratio')})", "since start"),
        most=1.0,
    )


def _lending() -> Sequence[AnyPanel]:
    return (
        series(
            "Leases per minute",
            "Granted, and ended by reason. rollout: a request came, as it should be. trainer_died or expired: look at "
            "the worker's log. Hundreds a minute: raise spot.settle_s of the coordinator.",
            "none",
            Query(f"60 * {rate('tlt_worker_leases_ended_total', by='reason')}", "{{reason}}"),
            Query(f"60 * {rate('tlt_leases_granted_total')}", "granted"),
            width=8,
        ),
        series(
            "Time to give a device back",
            "From the end of a lease until the trainer let go; rollouts share the device meanwhile. Longer than half a "
            "second: lower step_s of the trainer.",
            "s",
            Query(quantile(0.5, "tlt_worker_preempt_seconds"), "median"),
            Query(quantile(0.99, "tlt_worker_preempt_seconds"), "99 %"),
            width=8,
        ),
        series(
            "Requests that wait at gateways",
            "While any wait, nobody is lent. Always above zero: workers are too few, and there are no bubbles to use.",
            "none",
            Query(f"max({of('tlt_fleet_queued_requests')})", "waiting"),
            width=8,
        ),
        series(
            "Workers that train",
            "Share of time each worker trains. One that never does: its trainer does not come up; see its log.",
            "none",
            Query(rate(SECONDS, TRAINING, by="worker"), "{{worker}}"),
            stacked=True,
        ),
        series(
            "Trainers that died, last 10 minutes",
            "Spot trainers restarted, by pod. Rollouts do not suffer, training does: see the runbook "
            "TltTrainerRestarts.",
            "none",
            Query(recent("tlt_worker_trainer_restarts_total", by="pod"), "{{pod}}"),
        ),
    )

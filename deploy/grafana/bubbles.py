"""Dashboard of bubbles: how idle worker time was used."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import AnyPanel, Number, Row, board
from grafana.panels import BAD, FAIR, GOOD, Query, series, states, value
from grafana.queries import of, quantile, rate, recent, total

SECONDS = "tlt_worker_state_seconds_total"
STATES = {
    0: ("down", "red"),
    1: ("rollout", "green"),
    2: ("training", "blue"),
    3: ("switching", "orange"),
    4: ("updating", "purple"),
    5: ("idle", "yellow"),
    6: ("starting", "light-yellow"),
    7: ("resting", "light-blue"),
    8: ("trainer", "super-light-purple"),
}
COLORS = dict(STATES.values())
STACKED = ("rollout", "trainer", "updating", "switching", "training", "resting", "starting", "idle", "down")
"""Bottom to top, from useful work to downtime."""
BUBBLE = 'state=~"idle|starting|resting|switching|updating"'
TRAINING = 'state="training"'
UP = 'state!="down"'
MONEY = "* $gpu_hour / 3600"

NUMBERS = (Number("gpu_hour", "$ per GPU-hour", "2.50", "What one GPU costs you per hour."),)


def bubbles() -> Dashboard:
    """Build the dashboard: bubble utilization in time and money, and the state of every worker."""
    return board(
        "tlt-bubbles",
        "TLT / Bubbles",
        "Idle device time of rollouts, and the share of it that trains the drafter.",
        (
            Row("In the time range shown", _figures()),
            Row("Every worker", (_timeline(), _shares(), _utilization())),
            Row("Lending", _lending()),
        ),
        numbers=NUMBERS,
    )


def _figures() -> Sequence[AnyPanel]:
    trained = total(SECONDS, TRAINING)
    bubble = total(SECONDS, BUBBLE)
    return (
        value(
            "Bubble utilization",
            "Training / (training + unused + switching + updating), in GPU-seconds; training is what GPUs computed. "
            "Below 50 %: the row Lending shows why workers are not lent. No data: there was no bubble at all.",
            "percentunit",
            f"{trained} / ({trained} + {bubble})",
            steps=((None, BAD), (0.5, FAIR), (0.8, GOOD)),
        ),
        value(
            "Reclaimed time",
            "Otherwise idle GPU-seconds that trained the drafter. Zero: check that lending is enabled and frames "
            "arrive (TLT / Drafter).",
            "s",
            trained,
        ),
        value(
            "Value of reclaimed time",
            "Reclaimed time at your price per GPU-hour: the cost of training the same drafter on dedicated devices. "
            "Set the price above.",
            "currencyUSD",
            f"{trained} {MONEY}",
            steps=((None, GOOD),),
        ),
        value(
            "Wasted time",
            "Idle, switching and updating time at your price per GPU-hour. If it exceeds the value of reclaimed time, "
            "check whether workers wait for the trainer between steps: larger or overlapping batches fill that time "
            "with rollouts.",
            "currencyUSD",
            f"{bubble} {MONEY}",
        ),
        value(
            "Workers up",
            "Workers in any state except down. Fewer than deployed: run kubectl get pods -l "
            "app.kubernetes.io/component=worker.",
            "none",
            f"sum(max by (worker) ({of('tlt_worker_state', UP)}))",
        ),
        value(
            "Lending",
            "Off: no worker trains. Lending was disabled by a comparison (SetLending) or by the coordinator's key "
            "lending.",
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
        "Yellow: an unused bubble. Blue: lent to the trainer, which has data. Light blue: its trainer has nothing to "
        "learn. Orange: switching. A worker that stays light yellow has no ready trainer; look for trainer_exited in "
        "its log.",
        Query(codes, "{{worker}}"),
        STATES,
    )


def _shares() -> AnyPanel:
    return series(
        "GPUs by state",
        "Number of GPUs in each state. The green area that narrows towards the end of a step is the long tail.",
        "none",
        *(Query(rate(SECONDS, f'state="{word}"'), word) for word in STACKED),
        stacked=True,
        colors=COLORS,
    )


def _utilization() -> AnyPanel:
    trained, bubble = rate(SECONDS, TRAINING), rate(SECONDS, BUBBLE)
    return series(
        "Bubble utilization",
        "Over the last minutes, and since the coordinator started. After a lasting drop, check frames and trainer "
        "restarts in TLT / Drafter.",
        "percentunit",
        Query(f"{trained} / ({trained} + {bubble})", "last minutes"),
        Query(f"max({of('tlt_bubble_utilisation_ratio')})", "since start"),
        y_max=1.0,
    )


def _lending() -> Sequence[AnyPanel]:
    return (
        series(
            "Leases ended",
            "Leases granted per minute, and leases ended by reason. rollout is normal: a request arrived. "
            "trainer_died or expired: see the worker's log. Hundreds per minute: see the runbook TltLeaseChurn.",
            "none",
            Query(f"60 * {rate('tlt_worker_leases_ended_total', by='reason')}", "{{reason}}"),
            Query(f"60 * {rate('tlt_leases_granted_total')}", "granted"),
            width=8,
        ),
        series(
            "Time to return a device",
            "From the end of a lease until the trainer releases the device; until then rollouts share it. Above 0.2 s: "
            "tlt_trainer_free_seconds says what the trainer was doing; if it was training, lower its batch_tokens.",
            "s",
            Query(quantile(0.5, "tlt_worker_preempt_seconds"), "median"),
            Query(quantile(0.99, "tlt_worker_preempt_seconds"), "99 %"),
            width=8,
        ),
        series(
            "Queued requests",
            "No worker is lent while requests are queued at a gateway. If it never reaches zero, there are too few "
            "workers and no bubbles to use.",
            "none",
            Query(f"max({of('tlt_fleet_queued_requests')})", "queued"),
            width=8,
        ),
        series(
            "Training workers",
            "Share of time each worker trains. If one never trains, its trainer does not start; see its log.",
            "none",
            Query(rate(SECONDS, TRAINING, by="worker"), "{{worker}}"),
            stacked=True,
        ),
        series(
            "Trainer restarts, last 10 minutes",
            "Spot trainers restarted, by pod. Rollouts are not affected, training is; see the runbook "
            "TltTrainerRestarts.",
            "none",
            Query(recent("tlt_worker_trainer_restarts_total", by="pod"), "{{pod}}"),
        ),
    )

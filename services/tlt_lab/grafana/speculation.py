"""Which speculation runs, what it keeps, and whether it pays."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.board import AnyPanel, Row, board
from tlt_lab.grafana.panels import BAD, FAIR, GOOD, Query, series, value
from tlt_lab.grafana.queries import of, or_zero, rate

TOKENS, KEPT = "tlt_worker_round_tokens_total", "tlt_worker_accepted_draft_tokens_total"
ROUND_S, ROUNDS = "tlt_worker_round_seconds_total", "tlt_worker_rounds_total"
DRAFTED, SWITCHES = "tlt_worker_drafted_tokens_total", "tlt_worker_arm_switches_total"
OFF, DRAFTING, ONE = 'arm="off"', 'arm!="off"', 'group="1"'


def accept_length(*matchers: str, by: str = "") -> str:
    """Tokens per request and round: everything produced over what was no kept draft."""
    produced = rate(TOKENS, *matchers, by=by)
    return f"{produced} / ({produced} - {rate(KEPT, *matchers, by=by)})"


def speculation() -> Dashboard:
    """Arms, accept length, gain over plain decoding, regret."""
    return board(
        "tlt-speculation",
        "TLT / Speculation",
        "Whether drafts pay. Whatever is chosen, responses have the policy's own distribution.",
        (
            Row("Lately", _figures()),
            Row("What engines do", _arms()),
            Row("What it brings", _gain()),
            Row("What choosing costs", _choice()),
        ),
    )


def speed_up(*matchers: str) -> str:
    """Best drafting arm over off, in each group of batch sizes."""
    reward = "tlt_tuner_reward_tokens_per_second"
    # What is reported is the last window of one engine, which may have been a bad moment.
    drafting, off = (f"avg_over_time({of(reward, arm, *matchers)}[5m])" for arm in (DRAFTING, OFF))
    return f"max by (group) ({drafting}) / max by (group) ({off})"


def _figures() -> Sequence[AnyPanel]:
    return (
        value(
            "Accept length",
            "Tokens per request and round while drafting, bonus token included. Near 1: drafts are thrown away; has "
            "the "
            "drafter been published (TLT / Drafter)?",
            "none",
            accept_length(DRAFTING),
            steps=((None, BAD), (1.3, FAIR), (2, GOOD)),
            width=6,
        ),
        value(
            "Rounds that draft",
            "Share of decoding time spent in drafting arms. Low with a good accept length: batches are large, and "
            "off is "
            "right.",
            "percentunit",
            f"{rate(ROUND_S, DRAFTING)} / {rate(ROUND_S)}",
            width=6,
        ),
        value(
            "Gain at batch 1",
            "Tokens per second of the best drafting arm over plain decoding, one request running: the far end of the "
            "tail. Below 1: drafts cost more than they bring on this device.",
            "x",
            speed_up(ONE),
            steps=((None, BAD), (1, FAIR), (1.5, GOOD)),
            width=6,
        ),
        value(
            "Drafter in use",
            "Oldest drafter that a worker has; 0: one has none and decodes plainly.",
            "none",
            f"min({of('tlt_worker_drafter_version')})",
            steps=((None, FAIR), (1, GOOD)),
            width=6,
        ),
    )


def _arms() -> Sequence[AnyPanel]:
    return (
        series(
            "Time by arm",
            "Which arm engines spend their time in. off wins at large batches, long chains in the tail.",
            "percentunit",
            Query(f"{rate(ROUND_S, by='arm')} / scalar({rate(ROUND_S)})", "{{arm}}"),
            stacked=True,
            most=1.0,
            width=8,
        ),
        series(
            "Rounds per second by worker",
            "Verification rounds. A worker that falls behind the others: is its device shared, does its trainer let "
            "go?",
            "none",
            Query(rate(ROUNDS, by="pod"), "{{pod}}"),
            width=8,
        ),
        series(
            "Switches",
            "Rounds that ran another arm than the round before, as a share of all. Each costs little; more than a few "
            "percent that stay: arms are equally good, or rewards are noisy because the device is shared.",
            "percentunit",
            Query(f"{rate(SWITCHES, by='pod')} / {rate(ROUNDS, by='pod')}", "{{pod}}"),
            width=8,
        ),
    )


def _gain() -> Sequence[AnyPanel]:
    return (
        series(
            "Accept length by arm",
            "Tokens per request and round. It falls after a weights update and comes back with the next drafter; if it "
            "does not come back, see the runbook TltDraftsDoNotPay.",
            "none",
            Query(accept_length(DRAFTING, by="arm"), "{{arm}}"),
            least=1.0,
            width=8,
        ),
        series(
            "Gain over plain decoding",
            "Best drafting arm over off, by batch size (lower bound of its group), from the tuner. A line below 1 says "
            "where off is right.",
            "x",
            Query(speed_up(), "batch {{group}}"),
            width=8,
        ),
        series(
            "Draft tokens kept",
            "Share of the draft tokens verified, by arm. Short chains keep more of what they draft; low everywhere: "
            "the drafter does not fit the policy (TLT / Drafter).",
            "percentunit",
            Query(f"{rate(KEPT, DRAFTING, by='arm')} / {rate(DRAFTED, DRAFTING, by='arm')}", "{{arm}}"),
            most=1.0,
            width=8,
        ),
        series(
            "Draft tokens verified",
            "Per second, by arm: what speculation adds to the target's work.",
            "none",
            Query(rate(DRAFTED, DRAFTING, by="arm"), "{{arm}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Running requests",
            "In engines, by pod: arms that draft are for few of them.",
            "none",
            Query(f"sum by (pod) ({of('tlt_worker_running_requests')})", "{{pod}}"),
            width=8,
        ),
        series(
            "Tokens per second by arm",
            "Pooled over batch sizes, while the arm runs: not a fair comparison of arms, for they run at different "
            "batches. For that see the gain beside it.",
            "none",
            Query(f"{rate(TOKENS, by='arm')} / {rate(ROUND_S, by='arm')}", "{{arm}}"),
            width=8,
        ),
    )


def _choice() -> Sequence[AnyPanel]:
    lost, won = "tlt_tuner_regret_tokens_total", "tlt_tuner_tokens_total"
    return (
        series(
            "Regret",
            "Tokens that the best arm known would have produced more, as a share of what was produced, by batch size. "
            "Exploring costs some percent; a rise that stays: rewards changed, or engines disagree about the best arm.",
            "percentunit",
            Query(
                f"{rate(lost, by='group')} / ({rate(won, by='group')} + {rate(lost, by='group')})", "batch {{group}}"
            ),
            width=8,
        ),
        series(
            "Rounds reported by arm",
            "What the tuner hears of. Nothing while engines run: workers cannot reach it; they go on by themselves.",
            "none",
            Query(rate("tlt_tuner_rounds_total", by="arm"), "{{arm}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Reports the tuner did not get",
            "Windows lost, by pod. Rollouts do not suffer; engines learn alone meanwhile.",
            "none",
            Query(or_zero(rate("tlt_worker_windows_dropped_total", by="pod")), "{{pod}}"),
            width=8,
        ),
    )

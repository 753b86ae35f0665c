"""Dashboard of speculation: which arms run, how many drafts are accepted, and whether speculation pays."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import AnyPanel, Row, board
from grafana.panels import BAD, FAIR, GOOD, Query, series, value
from grafana.queries import of, or_zero, rate

TOKENS, KEPT = "tlt_worker_round_tokens_total", "tlt_worker_accepted_draft_tokens_total"
ROUND_S, ROUNDS = "tlt_worker_round_seconds_total", "tlt_worker_rounds_total"
DRAFTED, SWITCHES = "tlt_worker_drafted_tokens_total", "tlt_worker_arm_switches_total"
OFF, DRAFTING, ONE = 'arm="off"', 'arm!="off"', 'group="1"'


def accept_length(*matchers: str, by: str = "") -> str:
    """Tokens per request and round: tokens produced per token that was not an accepted draft."""
    produced = rate(TOKENS, *matchers, by=by)
    return f"{produced} / ({produced} - {rate(KEPT, *matchers, by=by)})"


def speculation() -> Dashboard:
    """Build the dashboard: arms, accept length, speedup over plain decoding, regret."""
    return board(
        "tlt-speculation",
        "TLT / Speculation",
        "Whether speculation pays. Responses follow the policy's distribution whichever arm runs.",
        (
            Row("Last minutes", _figures()),
            Row("Arms", _arms()),
            Row("Speedup", _gain()),
            Row("Bandit", _choice()),
        ),
    )


def speed_up(*matchers: str) -> str:
    """Reward of the best drafting arm over that of off, per group of batch sizes."""
    reward = "tlt_tuner_reward_tokens_per_second"
    # The gauge holds one engine's last window, which may be an outlier.
    drafting, off = (f"avg_over_time({of(reward, arm, *matchers)}[5m])" for arm in (DRAFTING, OFF))
    return f"max by (group) ({drafting}) / max by (group) ({off})"


def _figures() -> Sequence[AnyPanel]:
    return (
        value(
            "Accept length",
            "Tokens per request and round while drafting, bonus token included. Close to 1: drafts are rejected; "
            "check whether a drafter has been published (TLT / Drafter).",
            "none",
            accept_length(DRAFTING),
            steps=((None, BAD), (1.3, FAIR), (2, GOOD)),
            width=6,
        ),
        value(
            "Rounds with drafts",
            "Share of decoding time spent in arms that draft. Low despite a good accept length: batches are large, "
            "and off is the right choice.",
            "percentunit",
            f"{rate(ROUND_S, DRAFTING)} / {rate(ROUND_S)}",
            width=6,
        ),
        value(
            "Speedup at batch 1",
            "Tokens per second of the best drafting arm over plain decoding with one running request: the end of the "
            "tail. Below 1: drafting costs more than it gains on this device.",
            "x",
            speed_up(ONE),
            steps=((None, BAD), (1, FAIR), (1.5, GOOD)),
            width=6,
        ),
        value(
            "Drafter in use",
            "Oldest drafter version in use; 0 means that a worker has none.",
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
            "Share of decoding time per arm. off wins at large batch sizes, long chains in the tail.",
            "percentunit",
            Query(f"{rate(ROUND_S, by='arm')} / scalar({rate(ROUND_S)})", "{{arm}}"),
            stacked=True,
            y_max=1.0,
            width=8,
        ),
        series(
            "Rounds per second by worker",
            "Verification rounds. If a worker falls behind, check whether its device is shared and whether its "
            "trainer releases it.",
            "none",
            Query(rate(ROUNDS, by="pod"), "{{pod}}"),
            width=8,
        ),
        series(
            "Arm switches",
            "Share of rounds that ran a different arm from the round before. A switch is cheap; if more than a few "
            "percent persist, arms are equally good, or rewards are noisy because the device is shared.",
            "percentunit",
            Query(f"{rate(SWITCHES, by='pod')} / {rate(ROUNDS, by='pod')}", "{{pod}}"),
            width=8,
        ),
    )


def _gain() -> Sequence[AnyPanel]:
    return (
        series(
            "Accept length by arm",
            "Tokens per request and round. It drops after a weight update and recovers with the next drafter; if it "
            "does not, see the runbook TltDraftsDoNotPay.",
            "none",
            Query(accept_length(DRAFTING, by="arm"), "{{arm}}"),
            y_min=1.0,
            width=8,
        ),
        series(
            "Speedup over plain decoding",
            "Best drafting arm over off, by batch size (lower bound of the group), from the tuner. Below 1, off is "
            "the right choice.",
            "x",
            Query(speed_up(), "batch {{group}}"),
            width=8,
        ),
        series(
            "Acceptance rate",
            "Share of verified draft tokens that were accepted, by arm. Short chains have higher rates. Low for "
            "every arm: the drafter does not match the policy (TLT / Drafter).",
            "percentunit",
            Query(f"{rate(KEPT, DRAFTING, by='arm')} / {rate(DRAFTED, DRAFTING, by='arm')}", "{{arm}}"),
            y_max=1.0,
            width=8,
        ),
        series(
            "Draft tokens verified per second",
            "By arm: the work speculation adds to the target model.",
            "none",
            Query(rate(DRAFTED, DRAFTING, by="arm"), "{{arm}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Running requests",
            "Per engine, by pod. Drafting arms are chosen when few requests are running.",
            "none",
            Query(f"sum by (pod) ({of('tlt_worker_running_requests')})", "{{pod}}"),
            width=8,
        ),
        series(
            "Tokens per second by arm",
            "While the arm runs, over all batch sizes. Not a fair comparison, since arms run at different batch "
            "sizes; use the speedup on the left for that.",
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
            "Tokens the best known arm would have produced in addition, as a share of those produced, by batch size. "
            "Exploration costs a few percent; a lasting rise means that rewards changed or engines disagree about "
            "the best arm.",
            "percentunit",
            Query(
                f"{rate(lost, by='group')} / ({rate(won, by='group')} + {rate(lost, by='group')})", "batch {{group}}"
            ),
            width=8,
        ),
        series(
            "Rounds reported by arm",
            "Reports received by the tuner. None while engines run: workers cannot reach it and decide by themselves.",
            "none",
            Query(rate("tlt_tuner_rounds_total", by="arm"), "{{arm}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Lost tuner reports",
            "Windows lost per second, by pod. Rollouts are not affected; engines learn alone until reports get "
            "through.",
            "none",
            Query(or_zero(rate("tlt_worker_windows_dropped_total", by="pod")), "{{pod}}"),
            width=8,
        ),
    )

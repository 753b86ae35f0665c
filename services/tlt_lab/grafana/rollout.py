"""Requests: how many, how fast, how long, and from which weights."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.board import AnyPanel, Row, board
from tlt_lab.grafana.panels import BAD, FAIR, GOOD, PLAIN, Query, series, spread, value
from tlt_lab.grafana.queries import events, mean, of, quantile, rate, recent

FAILED = 'outcome="failed"'


def rollout() -> Dashboard:
    """Queue, latency, throughput, lengths, weights."""
    return board(
        "tlt-rollout",
        "TLT / Rollout",
        "What the trainer waits for.",
        (
            Row("Now", _figures()),
            Row("Load", _load()),
            Row("Latency", _latency()),
            Row("Lengths: the long tail", _lengths()),
            Row("Weights", _weights()),
        ),
    )


def _figures() -> Sequence[AnyPanel]:
    return (
        value(
            "Ready workers",
            "Workers the gateway sends requests to. Zero: requests wait, then fail: see the runbook TltNoReadyWorkers.",
            "none",
            f"max({of('tlt_gateway_ready_workers')})",
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Running",
            "Requests that workers answer now. Workers x max_running is the most.",
            "none",
            f"sum({of('tlt_gateway_running_requests')})",
        ),
        value(
            "Waiting",
            "Requests without a worker. Normal at the start of a step; always above zero means more workers would "
            "help.",
            "none",
            f"sum({of('tlt_gateway_queued_requests')})",
        ),
        value(
            "Tokens per second",
            "Response tokens sent to clients, over the last minutes.",
            "none",
            rate("tlt_gateway_produced_tokens_total"),
        ),
        value(
            "Policy version",
            "Weights that are served. It should follow your trainer's steps.",
            "none",
            f"max({of('tlt_gateway_policy_version')})",
        ),
        value(
            "Failed requests",
            "Requests that ended with an error in the time range. Any: look for the reason in the gateway's log.",
            "none",
            events("tlt_gateway_requests_total", FAILED),
            steps=((None, GOOD), (1, BAD)),
        ),
    )


def _load() -> Sequence[AnyPanel]:
    return (
        series(
            "Requests",
            "Running thins out towards the end of a step: that is the tail. Waiting that never reaches zero: add "
            "workers.",
            "none",
            Query(f"sum({of('tlt_gateway_running_requests')})", "running"),
            Query(f"sum({of('tlt_gateway_queued_requests')})", "waiting"),
            width=8,
        ),
        series(
            "Tokens per second",
            "What the engines produced, by worker. One far below the others: compare its arms in TLT / Speculation.",
            "none",
            Query(rate("tlt_worker_produced_tokens_total", by="pod"), "{{pod}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Requests that ended, per minute",
            "hung_up and aborted come from clients; failed from here. Failed: look for the error in the gateway's log.",
            "none",
            Query(f"60 * {rate('tlt_gateway_requests_total', by='outcome')}", "{{outcome}}"),
            Query(f"60 * {rate('tlt_gateway_moved_requests_total')}", "moved to another worker"),
            Query(f"60 * {rate('tlt_gateway_refused_requests_total')}", "refused: queue full"),
            width=8,
        ),
    )


def _latency() -> Sequence[AnyPanel]:
    return (
        _quantiles(
            "Time of a response",
            "From arrival to last token, finished requests. The 99 % line is what a step waits for; speculation "
            "pulls it "
            "down, so compare with TLT / Speculation.",
            "tlt_gateway_request_seconds",
            "s",
        ),
        _quantiles(
            "Time to first token",
            "Waiting included. High while nobody waits: prompts are long, or engines are paused by updates.",
            "tlt_gateway_first_token_seconds",
            "s",
        ),
        _quantiles(
            "Time until a worker was free",
            "High: the queue is the bottleneck. Add workers or raise max_running.",
            "tlt_gateway_queue_seconds",
            "s",
        ),
    )


def _lengths() -> Sequence[AnyPanel]:
    longest, middle = (quantile(share, "tlt_gateway_response_tokens") for share in (0.99, 0.5))
    return (
        spread(
            "Response lengths",
            "Tokens of finished responses. A band that grows upwards is a policy that learns to think longer: check "
            "that "
            "max_new_tokens does not cut it.",
            "none",
            f"sum by (le) (increase({of('tlt_gateway_response_tokens_bucket')}[$__rate_interval]))",
        ),
        _quantiles(
            "Quantiles of response lengths",
            "Estimated from buckets of powers of two.",
            "tlt_gateway_response_tokens",
            "none",
            width=12,
        ),
        series(
            "How long the tail is",
            "Longest hundredth over median. The larger, the more of a step is tail, and the more there is to gain "
            "here.",
            "none",
            Query(f"{longest} / {middle}", "99 % / median"),
        ),
        _quantiles(
            "Prompt lengths",
            "Long prompts cost prefill: they lengthen the time to the first token and pauses of running responses.",
            "tlt_gateway_prompt_tokens",
            "none",
            width=12,
        ),
    )


def _weights() -> Sequence[AnyPanel]:
    return (
        series(
            "Policy version by worker",
            "All on one line. A worker that stays below gets no requests: see the runbook "
            "TltWorkersAtDifferentVersions.",
            "none",
            Query(f"max by (pod) ({of('tlt_worker_policy_version')})", "{{pod}}"),
            least=None,
            width=8,
        ),
        series(
            "Time of a weights update",
            "From the first byte to the last switch, mean. Mostly transfer: put weights where workers can read them "
            "(uri, shared spool) if it is long.",
            "s",
            Query(mean("tlt_gateway_update_seconds"), "update"),
            Query(mean("tlt_worker_pause_seconds", by="cause"), "pause of rollouts: {{cause}}"),
            width=8,
        ),
        series(
            "Policy versions in one response",
            "Mean. Above 1: responses went on over an update. Your algorithm has to expect that; each token carries "
            "its "
            "version.",
            "none",
            Query(mean("tlt_gateway_response_versions"), "versions"),
            width=8,
        ),
        series(
            "Workers by state",
            "As the gateway sees them. behind: it gets the weights before it may answer; lost: it does not answer.",
            "none",
            Query(f"max by (state) ({of('tlt_gateway_workers')})", "{{state}}"),
            colours={"ready": GOOD, "behind": FAIR, "lost": BAD},
            stacked=True,
        ),
        series(
            "Workers that refused or missed weights, last 10 minutes",
            "By phase. stage: the weights do not fit the model, and the update failed. commit and bring_forward: that "
            "worker is out until it succeeds.",
            "none",
            Query(recent("tlt_gateway_update_failures_total", by="phase"), "{{phase}}"),
            colours={"stage": BAD, "Value": PLAIN},
        ),
    )


def _quantiles(title: str, help_text: str, histogram: str, unit: str, *, width: int = 8) -> AnyPanel:
    names = {0.5: "median", 0.9: "90 %", 0.99: "99 %"}
    queries = [Query(quantile(share, histogram), name) for share, name in names.items()]
    return series(title, help_text, unit, *queries, width=width)

"""Dashboard of rollouts: load, latency, lengths and weight versions."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import AnyPanel, Row, board
from grafana.panels import BAD, FAIR, GOOD, PLAIN, Query, series, spread, value
from grafana.queries import events, mean, of, quantile, rate, recent

FAILED = 'outcome="failed"'


def rollout() -> Dashboard:
    """Build the dashboard: queue, latency, throughput, lengths, weights."""
    return board(
        "tlt-rollout",
        "TLT / Rollout",
        "Rollout load, latency and lengths, and weight updates.",
        (
            Row("Now", _figures()),
            Row("Load", _load()),
            Row("Latency", _latency()),
            Row("Response lengths: the long tail", _lengths()),
            Row("Weights", _weights()),
        ),
    )


def _figures() -> Sequence[AnyPanel]:
    return (
        value(
            "Ready workers",
            "Workers the gateway routes requests to. Zero: requests are queued, then fail; see the runbook "
            "TltNoReadyWorkers.",
            "none",
            f"max({of('tlt_gateway_ready_workers')})",
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Running",
            "Requests being decoded. The maximum is workers x max_running.",
            "none",
            f"sum({of('tlt_gateway_running_requests')})",
        ),
        value(
            "Queued",
            "Requests without a worker. Normal at the start of a step; if it never reaches zero, add workers.",
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
            "Version of the weights being served. It should follow your trainer's steps.",
            "none",
            f"max({of('tlt_gateway_policy_version')})",
        ),
        value(
            "Failed requests",
            "Requests that ended with an error in the time range. The gateway's log gives the reason.",
            "none",
            events("tlt_gateway_requests_total", FAILED),
            steps=((None, GOOD), (1, BAD)),
        ),
    )


def _load() -> Sequence[AnyPanel]:
    return (
        series(
            "Requests",
            "Running requests decline towards the end of a step: that is the tail. If the queue never empties, add "
            "workers.",
            "none",
            Query(f"sum({of('tlt_gateway_running_requests')})", "running"),
            Query(f"sum({of('tlt_gateway_queued_requests')})", "queued"),
            width=8,
        ),
        series(
            "Tokens per second",
            "Tokens produced by engines, by worker. If one is far below the others, compare its arms in TLT / "
            "Speculation.",
            "none",
            Query(rate("tlt_worker_produced_tokens_total", by="pod"), "{{pod}}"),
            stacked=True,
            width=8,
        ),
        series(
            "Finished requests per minute",
            "By outcome. hung_up and aborted are caused by clients, failed by the server; the gateway's log gives "
            "the error.",
            "none",
            Query(f"60 * {rate('tlt_gateway_requests_total', by='outcome')}", "{{outcome}}"),
            Query(f"60 * {rate('tlt_gateway_moved_requests_total')}", "moved from a lost worker"),
            Query(f"60 * {rate('tlt_gateway_refused_requests_total')}", "refused: queue full"),
            width=8,
        ),
    )


def _latency() -> Sequence[AnyPanel]:
    return (
        _quantiles(
            "Response time",
            "From arrival to last token, finished requests. A step waits for the 99 % line; speculation lowers it, "
            "so compare with TLT / Speculation.",
            "tlt_gateway_request_seconds",
            "s",
        ),
        _quantiles(
            "Time to first token",
            "Includes queueing. If it is high while the queue is empty, prompts are long or updates pause the engines.",
            "tlt_gateway_first_token_seconds",
            "s",
        ),
        _quantiles(
            "Queueing time",
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
            "Tokens of finished responses. A band that grows upwards means that the policy learns to think longer: "
            "check that max_new_tokens does not truncate it.",
            "none",
            f"sum by (le) (increase({of('tlt_gateway_response_tokens_bucket')}[$__rate_interval]))",
        ),
        _quantiles(
            "Response length quantiles",
            "Estimated from power-of-two buckets.",
            "tlt_gateway_response_tokens",
            "none",
            width=12,
        ),
        series(
            "Tail length",
            "99th percentile over median. The higher it is, the more of a step is tail and the more speculation can "
            "gain.",
            "none",
            Query(f"{longest} / {middle}", "99 % / median"),
        ),
        _quantiles(
            "Prompt lengths",
            "Long prompts cost prefill time: they delay the first token and pause running responses.",
            "tlt_gateway_prompt_tokens",
            "none",
            width=12,
        ),
        series(
            "Cached prompts of sessions",
            "Share of the prompt tokens of sessions that were not prefilled. Lower than the share of earlier turns in "
            "prompts: turns run on other workers, because loads differ or requests queue, or caches are too small.",
            "percentunit",
            Query(
                f"{rate('tlt_gateway_session_cached_tokens_total')} / "
                f"{rate('tlt_gateway_session_prompt_tokens_total')}",
                "cached",
            ),
            y_max=1.0,
        ),
        series(
            "Chat prompts",
            "By how the tokens of earlier responses were found. spliced: as they were sampled. tokenized: from text, "
            "since nothing was known of them, for example after a restart or because a client changed the messages. "
            "forgotten: from text, since there was no room for them; see the runbook TltChatTokensForgotten.",
            "none",
            Query(f"60 * {rate('tlt_gateway_chat_prompts_total', by='history')}", "{{history}}"),
        ),
    )


def _weights() -> Sequence[AnyPanel]:
    return (
        series(
            "Policy version by worker",
            "All workers should be on one line. A worker below it receives no requests; see the runbook "
            "TltWorkersAtDifferentVersions.",
            "none",
            Query(f"max by (pod) ({of('tlt_worker_policy_version')})", "{{pod}}"),
            y_min=None,
            width=8,
        ),
        series(
            "Duration of weight updates",
            "Mean time from the first byte to the last switch. Mostly transfer: if it is long, publish weights where "
            "workers can read them (URI, shared spool).",
            "s",
            Query(mean("tlt_gateway_update_seconds"), "update"),
            Query(mean("tlt_worker_pause_seconds", by="cause"), "pause of rollouts: {{cause}}"),
            width=8,
        ),
        series(
            "Policy versions per response",
            "Mean. Above 1: responses continued across an update. Your algorithm must allow for that; each token "
            "carries its version.",
            "none",
            Query(mean("tlt_gateway_response_versions"), "versions"),
            width=8,
        ),
        series(
            "Workers by state",
            "As seen by the gateway. behind: receives the weights before it may serve. lost: does not answer.",
            "none",
            Query(f"max by (state) ({of('tlt_gateway_workers')})", "{{state}}"),
            colors={"ready": GOOD, "behind": FAIR, "lost": BAD},
            stacked=True,
        ),
        series(
            "Failed weight updates by worker, last 10 minutes",
            "By phase. stage: the weights do not fit the model, and the update failed. commit and bring_forward: the "
            "worker is out of service until it succeeds.",
            "none",
            Query(recent("tlt_gateway_update_failures_total", by="phase"), "{{phase}}"),
            colors={"stage": BAD, "Value": PLAIN},
        ),
    )


def _quantiles(title: str, help_text: str, histogram: str, unit: str, *, width: int = 8) -> AnyPanel:
    names = {0.5: "median", 0.9: "90 %", 0.99: "99 %"}
    queries = [Query(quantile(share, histogram), name) for share, name in names.items()]
    return series(title, help_text, unit, *queries, width=width)

"""Dashboard of health: whether components are up, and what they drop or refuse."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import AnyPanel, Row, board
from grafana.panels import BAD, FAIR, GOOD, Query, series, value
from grafana.queries import RANGE, events, of, or_zero, rate

ERROR = 'code!="OK"'


def health() -> Dashboard:
    """Build the dashboard: processes, calls, losses, the cache."""
    return board(
        "tlt-health",
        "TLT / Fleet health",
        "Health of every component. Rollouts need only gateway and workers.",
        (
            Row("In the time range shown", _figures()),
            Row("Processes", _processes()),
            Row("Calls", _calls()),
            Row("Hidden states", _cache()),
        ),
    )


def _figures() -> Sequence[AnyPanel]:
    restarts = f"sum(changes({of('process_start_time_seconds')}[{RANGE}]))"
    return (
        value(
            "Restarts",
            "Processes that restarted at the same address. Check kubectl get pods, and logs with --previous.",
            "none",
            or_zero(restarts),
            steps=((None, GOOD), (1, FAIR)),
        ),
        value(
            "Trainer restarts",
            "Spot trainers that crashed. Rollouts are not affected; see the runbook TltTrainerRestarts.",
            "none",
            events("tlt_worker_trainer_restarts_total"),
            steps=((None, GOOD), (3, BAD)),
        ),
        value(
            "Coordinators",
            "None: rollouts continue but idle time is not used; see the runbook TltNoCoordinator.",
            "none",
            or_zero(f"sum({of('tlt_coordinator_active')})"),
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Frames dropped",
            "Captured frames that were not stored. Rollouts never wait for capture; training has less data.",
            "none",
            events("tlt_worker_frames_dropped_total"),
            steps=((None, GOOD), (100, FAIR)),
        ),
        value(
            "Frame store",
            "Whether Redis answers. Down: nothing is captured and training stops; rollouts continue.",
            "bool_on_off",
            f"min({of('tlt_cache_store_up')})",
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Next certificate expiry",
            "No data without TLS. Below two weeks: see the runbook TltCertificateExpiring.",
            "s",
            f"min({of('tlt_tls_certificate_expiry_timestamp_seconds')} > 0) - time()",
            steps=((None, BAD), (14 * 86400, GOOD)),
        ),
    )


def _processes() -> Sequence[AnyPanel]:
    return (
        series(
            "Processes by component",
            "Processes that Prometheus scrapes. After a lasting drop run kubectl get pods -l "
            "app.kubernetes.io/name=tlt.",
            "none",
            Query(f"count by (component, version) ({of('tlt_build_info')})", "{{component}} {{version}}"),
            width=8,
        ),
        series(
            "Memory",
            "Resident memory by pod, without the engines' own processes. If a gateway grows without bound, updates "
            "are streamed rather than shared.",
            "bytes",
            Query(f"sum by (pod) ({of('process_resident_memory_bytes')})", "{{pod}}"),
            width=8,
        ),
        series(
            "CPU",
            "Cores used, by pod. A gateway that uses one full core is at its limit: add a replica.",
            "none",
            Query(rate("process_cpu_seconds_total", by="pod"), "{{pod}}"),
            width=8,
        ),
    )


def _calls() -> Sequence[AnyPanel]:
    return (
        series(
            "Calls per second",
            "By service.",
            "none",
            Query(rate("tlt_rpc_calls_total", by="service"), "{{service}}"),
            width=8,
        ),
        series(
            "Failed calls per minute",
            "By service, method and code. UNAVAILABLE: the peer is gone. INVALID_ARGUMENT and NOT_FOUND: the caller "
            "is at fault. INTERNAL: a bug; the stack trace is in the log.",
            "none",
            Query(
                f"60 * ({or_zero(rate('tlt_rpc_calls_total', ERROR, by='service, method, code'))})",
                "{{service}}.{{method}} {{code}}",
            ),
            width=8,
        ),
        series(
            "Unauthorized calls per minute",
            "By reason. expired: renew the trainer's token. role: the caller used another component's certificate.",
            "none",
            Query(f"60 * ({or_zero(rate('tlt_rpc_refused_total', by='service, reason'))})", "{{service}} {{reason}}"),
            width=8,
        ),
    )


def _cache() -> Sequence[AnyPanel]:
    return (
        series(
            "Cache",
            "Bytes of stored frames and their budget. A full cache is normal: the newest and longest frames are kept.",
            "bytes",
            Query(f"max({of('tlt_cache_used_bytes')})", "used"),
            Query(f"max({of('tlt_cache_budget_bytes')})", "budget"),
            width=8,
        ),
        series(
            "Evicted frames per second",
            "Frames evicted to make room for newer ones. If it far exceeds what trainers take, lower sample_ratio to "
            "save copies.",
            "none",
            Query(f"max(rate({of('tlt_cache_evicted_frames')}[$__rate_interval]))", "evicted"),
            width=8,
        ),
        series(
            "Frames dropped per second, by reason",
            "full: no room in the worker's queue (64 MiB). refused: the cache did not store them. See the "
            "runbook TltFramesDropped.",
            "none",
            Query(or_zero(rate("tlt_worker_frames_dropped_total", by="reason")), "{{reason}}"),
            width=8,
        ),
    )

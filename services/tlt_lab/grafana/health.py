"""Whether the parts are there, and what they lose or refuse."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.board import AnyPanel, Row, board
from tlt_lab.grafana.panels import BAD, FAIR, GOOD, Query, series, value
from tlt_lab.grafana.queries import RANGE, events, of, or_zero, rate

ERROR = 'code!="OK"'


def health() -> Dashboard:
    """Processes, calls, losses, the cache."""
    return board(
        "tlt-health",
        "TLT / Fleet health",
        "What is there, what fails, what is lost. Only gateway and workers are needed for rollouts.",
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
            "Processes that began anew under the same address. Look at kubectl get pods and the log with --previous.",
            "none",
            or_zero(restarts),
            steps=((None, GOOD), (1, FAIR)),
        ),
        value(
            "Trainer restarts",
            "Spot trainers that died. Rollouts do not suffer: see the runbook TltTrainerRestarts.",
            "none",
            events("tlt_worker_trainer_restarts_total"),
            steps=((None, GOOD), (3, BAD)),
        ),
        value(
            "Leading coordinators",
            "One plans the fleet, others stand by. None: rollouts go on, idle time is not used; see the runbook "
            "TltCoordinatorHasNoLeader.",
            "none",
            or_zero(f"sum({of('tlt_coordinator_leader')})"),
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Frames lost",
            "Hidden states that were captured and reached no trainer. Rollouts never wait for them; training has less.",
            "none",
            events("tlt_worker_frames_dropped_total"),
            steps=((None, GOOD), (100, FAIR)),
        ),
        value(
            "Frame store",
            "Whether Redis answers. Down: nothing is captured, training stops, rollouts go on.",
            "bool_on_off",
            f"min({of('tlt_cache_store_up')})",
            steps=((None, BAD), (1, GOOD)),
        ),
        value(
            "Certificates expire in",
            "First of all; none without TLS. Below two weeks: see the runbook TltCertificateExpiring.",
            "s",
            f"min({of('tlt_tls_certificate_expiry_timestamp_seconds')} > 0) - time()",
            steps=((None, BAD), (14 * 86400, GOOD)),
        ),
    )


def _processes() -> Sequence[AnyPanel]:
    return (
        series(
            "Processes by part",
            "What answers to Prometheus. A step down that stays: kubectl get pods -l app.kubernetes.io/name=tlt.",
            "none",
            Query(f"count by (component, version) ({of('tlt_build_info')})", "{{component}} {{version}}"),
            width=8,
        ),
        series(
            "Memory",
            "Resident, by pod; engines' own processes are not in it. Growth without end in a gateway: updates are "
            "streamed "
            "and not shared.",
            "bytes",
            Query(f"sum by (pod) ({of('process_resident_memory_bytes')})", "{{pod}}"),
            width=8,
        ),
        series(
            "Processor time",
            "Cores used, by pod. A gateway at one core is at its limit: run two.",
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
            "Calls that failed, per minute",
            "By service, method and code. UNAVAILABLE: the other side is gone; INVALID_ARGUMENT and NOT_FOUND: the "
            "caller "
            "is at fault; INTERNAL: a defect, its trace is in the log.",
            "none",
            Query(
                f"60 * ({or_zero(rate('tlt_rpc_calls_total', ERROR, by='service, method, code'))})",
                "{{service}}.{{method}} {{code}}",
            ),
            width=8,
        ),
        series(
            "Calls refused for want of rights, per minute",
            "By reason. expired: renew the trainer's token; role: a certificate of another component was used.",
            "none",
            Query(f"60 * ({or_zero(rate('tlt_rpc_refused_total', by='service, reason'))})", "{{service}} {{reason}}"),
            width=8,
        ),
    )


def _cache() -> Sequence[AnyPanel]:
    return (
        series(
            "Cache",
            "Bytes of kept frames and their budget. Full is normal: the newest and longest are kept.",
            "bytes",
            Query(f"max({of('tlt_cache_used_bytes')})", "used"),
            Query(f"max({of('tlt_cache_budget_bytes')})", "budget"),
            width=8,
        ),
        series(
            "Evicted frames per second",
            "Frames that made room for newer ones. Far above what trainers take: a lower sample_ratio saves copies.",
            "none",
            Query(f"max(rate({of('tlt_cache_evicted_frames')}[$__rate_interval]))", "evicted"),
            width=8,
        ),
        series(
            "Frames lost per second, by place",
            "engine, pump, worker: queues were full; wire: the cache did not take them. See the runbook "
            "TltFramesDropped.",
            "none",
            Query(or_zero(rate("tlt_worker_frames_dropped_total", by="where")), "{{where}}"),
            width=8,
        ),
    )

"""Targets of strikes, and the actions on them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tlt_bench.campaign.suite.suite import SECOND_GATEWAY, WORKERS


class Action(StrEnum):
    """Action on a victim."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    PAUSE = "SIGSTOP for 1 s"
    HANG = "SIGSTOP"
    """SIGCONT follows after HANG_S, if the process still exists: it may be replaced before that."""
    CUT = "cut"
    """Reset connections."""
    FREEZE = "freeze"
    """Keep connections open but deliver nothing for FREEZE_S."""


PAUSE_S = 1.0
HANG_S = 30.0
"""Longer than the suite's `liveness_s`, after which it kills a stopped process; on a busy machine later."""
FREEZE_S = 6.0
_PROCESS = (Action.KILL, Action.TERM, Action.PAUSE, Action.HANG)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTarget:
    """A kind of process, or the connections of clients."""

    name: str
    group: str
    """At most one target per group is disturbed at a time: one of two gateways and one of two workers stays up."""
    actions: tuple[Action, ...] = _PROCESS
    is_one: Callable[[str], bool] = lambda _: False
    """Whether a command line, with arguments separated by NUL, belongs to such a process."""
    count: int = 1
    """Number of processes of this kind in a healthy suite."""
    is_costly: bool = False
    """Whether an engine must restart afterwards."""
    served_as: str = ""
    """Name of the address at which the replacement must serve; empty if it has none."""


def _service(name: str, *, group: str = "") -> KillTarget:
    return KillTarget(
        name=name, group=group or name, served_as=name, is_one=lambda command: f"/addresses/{name}.json" in command
    )


def _is_scheduler(command: str) -> bool:
    return command.startswith("sglang::scheduler")


def _is_replica(command: str) -> bool:
    return command.startswith("ray::ServeReplica")


def _is_serve_controller(command: str) -> bool:
    return command.startswith("ray::ServeController")


def _is_redis(command: str) -> bool:
    return "redis-server" in command


def _is_trainer(command: str) -> bool:
    return "\0serve\0trainer\0" in command


CONNECTIONS = KillTarget(name="client connections", group="connections", actions=(Action.CUT, Action.FREEZE), count=0)
ENGINE = KillTarget(name="engine", group="worker", is_one=_is_scheduler, count=WORKERS, is_costly=True)
REPLICA = KillTarget(name="worker", group="worker", is_one=_is_replica, count=WORKERS, is_costly=True)
CONTROLLER = KillTarget(
    name="Ray Serve controller",
    group="worker",
    actions=(Action.KILL, Action.TERM, Action.PAUSE),
    is_one=_is_serve_controller,
)
CHEAP: tuple[KillTarget, ...] = (
    _service("gateway"),
    # In the same group: one of the gateways stays.
    _service(SECOND_GATEWAY, group="gateway"),
    _service("coordinator"),
    _service("cache"),
    _service("tuner"),
    KillTarget(name="redis", group="cache", is_one=_is_redis),
    KillTarget(name="trainer", group="trainer", is_one=_is_trainer, count=WORKERS),
    CONNECTIONS,
)
TARGETS: tuple[KillTarget, ...] = (*CHEAP, ENGINE, REPLICA, CONTROLLER)

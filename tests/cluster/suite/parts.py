"""The pods of the suite by component, and whether all of them are back after a disturbance."""

from tests.cluster.eventually import eventually
from tests.cluster.suite.installed import GATEWAYS, WORKERS, Suite

BACK_S = 420.0
SERVICES = ("gateway", "coordinator", "cache", "tuner")
REPLICAS = {"gateway": GATEWAYS, "coordinator": 1, "cache": 1, "tuner": 1, "redis": 1, "worker": WORKERS, "head": 1}
"""Pods by component."""


def ready(suite: Suite, component: str) -> set[str]:
    """Names of the pods of a component that are ready and stay."""
    return {
        pod["metadata"]["name"]
        for pod in suite.pods(component)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
    }


def started(suite: Suite, component: str) -> set[str]:
    """Names of the containers of a component that run: a restarted one has another."""
    found = (container for pod in suite.pods(component) for container in pod["status"].get("containerStatuses", []))
    return {container["containerID"] for container in found if "running" in container["state"]}


def until_back(suite: Suite) -> None:
    eventually(lambda: _missing(suite) == {}, BACK_S)
    eventually(lambda: suite.ready_workers() == WORKERS, BACK_S)


def until_restarted(suite: Suite, component: str, before: set[str]) -> None:
    """Wait until none of the containers that ran `before` runs."""
    eventually(lambda: started(suite, component).isdisjoint(before), BACK_S)


def _missing(suite: Suite) -> dict[str, int]:
    """Pods that are not ready yet, or are too many yet, by component."""
    lacking = {name: count - len(ready(suite, name)) for name, count in REPLICAS.items()}
    return {name: count for name, count in lacking.items() if count}

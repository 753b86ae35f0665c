"""The pods of the suite by component, and whether all of them are back after a disturbance."""

from tests.cluster.eventually import eventually
from tests.cluster.suite.installed import WORKERS, Suite

BACK_S = 420.0
SERVICES = ("gateway", "coordinator", "cache", "tuner")
COMPONENTS = (*SERVICES, "redis", "worker")


def ready(suite: Suite, component: str) -> set[str]:
    """Names of the pods of a component that are ready and stay."""
    return {
        pod["metadata"]["name"]
        for pod in suite.pods(component)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
    }


def until_back(suite: Suite) -> None:
    eventually(lambda: all(len(ready(suite, name)) == len(suite.pods(name)) > 0 for name in COMPONENTS), BACK_S)
    eventually(lambda: suite.ready_workers() == WORKERS, BACK_S)

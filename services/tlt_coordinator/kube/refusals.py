"""Permissions the coordinator lacks, logged once each: they stay missing until an operator grants them."""

from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import KubeRefusedError

log = get_logger(__name__)


class Refusals:
    """Records which verbs on which resources were refused."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def note(self, error: KubeRefusedError, *, consequence: str) -> None:
        """Log the first refusal of a verb on a resource, and what does not work because of it."""
        if (error.verb, error.resource) not in self._logged:
            self._logged.add((error.verb, error.resource))
            log.error(
                "kubernetes_refused",
                verb=error.verb,
                resource=error.resource,
                reason=str(error),
                consequence=consequence,
            )

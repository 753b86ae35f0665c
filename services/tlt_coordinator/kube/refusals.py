"""Rights the coordinator lacks: said once each, since they stay missing until somebody acts."""

from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import RefusedError

log = get_logger(__name__)


class Refusals:
    """Remembers which verbs on which resources were refused."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def note(self, error: RefusedError, *, consequence: str) -> None:
        """Log a refusal the first time, naming verb and resource, and what does not work without it."""
        if (error.verb, error.resource) not in self._said:
            self._said.add((error.verb, error.resource))
            log.error(
                "kubernetes_refused",
                verb=error.verb,
                resource=error.resource,
                reason=str(error),
                consequence=consequence,
            )

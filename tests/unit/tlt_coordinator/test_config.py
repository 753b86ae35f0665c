"""What a coordinator refuses to be told."""

import pytest

from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_coordinator.config import CoordinatorConfig

PLACE = ("kubernetes.namespace=rl", "kubernetes.pod=c-0")


def loaded(*settings: str, environment: dict[str, str] | None = None) -> CoordinatorConfig:
    return load(CoordinatorConfig, "coordinator", file=None, environment=environment or {}, settings=settings)


def test_the_pod_comes_from_the_environment_and_the_rest_has_defaults() -> None:
    environment = {"TLT_COORDINATOR_KUBERNETES__POD": "7", "TLT_COORDINATOR_KUBERNETES__NAMESPACE": "rl"}
    kubernetes = loaded(environment=environment).kubernetes
    assert kubernetes is not None
    assert (kubernetes.pod, kubernetes.lease, kubernetes.lease_duration_s) == ("7", "tlt-coordinator", 15)


def test_outside_kubernetes_there_are_no_settings_for_it() -> None:
    assert loaded().kubernetes is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("kubernetes.namespace=rl",), "kubernetes.pod: Field required"),
        ((*PLACE, "state_dir=/tmp"), "the Lease stores the state"),
        ((*PLACE, "kubernetes.renew_deadline_s=15"), "must increase in this order"),
        ((*PLACE, "kubernetes.retry_period_s=10"), "must increase in this order"),
    ],
)
def test_what_cannot_be_is_named(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(*settings)

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
    assert (kubernetes.pod, kubernetes.config_map) == ("7", "tlt-coordinator-state")


def test_outside_kubernetes_there_are_no_settings_for_it() -> None:
    assert loaded().kubernetes is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("kubernetes.namespace=rl",), "kubernetes.pod: Field required"),
        ((*PLACE, "state_dir=/tmp"), "a ConfigMap stores the state"),
    ],
)
def test_what_cannot_be_is_named(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(*settings)

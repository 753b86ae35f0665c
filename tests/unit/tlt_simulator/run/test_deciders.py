"""What is simulated is decided by the product's own code: simulator and services import the same things."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

import tlt_simulator.run

DECIDERS = {
    "tlt_coordinator.lender.Lender": "tlt_coordinator.coordinator",
    "tlt_coordinator.registry.Registry": "tlt_coordinator.coordinator",
    "tlt_coordinator.account.ledger.Ledger": "tlt_coordinator.coordinator",
    "tlt_coordinator.queues.Queues": "tlt_coordinator.coordinator",
    "tlt_coordinator.drafters.announcer.Announcer": "tlt_coordinator.coordinator",
    "tlt_gateway.queue.placing.Placing": "tlt_gateway.queue.slots",
    "tlt_gateway.queue.fair_queue.FairQueue": "tlt_gateway.queue.admission",
    "tlt_worker.lending.device_lease.DeviceLease": "tlt_worker.lending.held_lease",
    "tlt_worker.activity.Activity": "tlt_worker.worker",
    "tlt_common.bandit.Bandit": "tlt_worker.scheduler.eagle_worker",
    "tlt_trainer.data.intake.take_size": "tlt_trainer.data.frame_source",
    "tlt_trainer.sharing.decision.TrainingDecisions": "tlt_trainer.training_loop",
}
"""What decides, and which module of a service uses it."""
WITHIN = {
    "tlt_coordinator.lending.orders.orders": "tlt_coordinator.lender",
    "tlt_coordinator.lending.worklist.Worklist": "tlt_coordinator.registry",
}
"""What those of DECIDERS decide by in turn."""


def imported(path: Path) -> set[str]:
    """Return the full names that a module imports."""
    tree = ast.parse(path.read_text())
    return {
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }


def source_of(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None
    return Path(spec.origin)


def of_simulator() -> set[str]:
    folder = Path(tlt_simulator.run.__file__).parent
    return {name for path in folder.rglob("*.py") for name in imported(path)}


@pytest.mark.parametrize(("decider", "service"), sorted((DECIDERS | WITHIN).items()))
def test_a_service_decides_by_it(decider: str, service: str) -> None:
    assert decider in imported(source_of(service)), f"{service} decides by something else than {decider}"


@pytest.mark.parametrize("decider", sorted(DECIDERS))
def test_the_simulator_decides_by_it(decider: str) -> None:
    assert decider in of_simulator()


def test_the_simulator_imports_nothing_of_services_that_they_do_not_use() -> None:
    """A decider that a service has replaced would live on here unseen."""
    services = Path(tlt_simulator.run.__file__).parents[2]
    used = {
        name
        for service in ("tlt_coordinator", "tlt_gateway", "tlt_trainer", "tlt_worker")
        for path in (services / service).rglob("*.py")
        for name in imported(path)
    }
    own = ("tlt_coordinator.", "tlt_gateway.", "tlt_trainer.", "tlt_worker.")
    assert {name for name in of_simulator() if name.startswith(own)} - used == set()

from dataclasses import dataclass
from pathlib import Path

import pytest

from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import EngineError
from tlt_worker.engine.policy_load import PolicyFiles, replace_policy
from tlt_worker.scheduler.policy_load import report_failed_load

SERVED = PolicyFiles(directory=Path("/served"), version=PolicyVersion(1))
NEW = PolicyFiles(directory=Path("/new"), version=PolicyVersion(2))


@dataclass
class Engine:
    """Loads weights; `broken` directories fail and leave the model mixed."""

    broken: set[str]
    loaded: str = "/served"
    version: int = 1

    async def load(self, policy: PolicyFiles) -> str:
        if str(policy.directory) in self.broken:
            self.loaded = "mixed"
            return "unreadable"
        self.loaded, self.version = str(policy.directory), policy.version
        return ""


async def test_new_weights_are_loaded_once() -> None:
    engine = Engine(set())
    assert not await replace_policy(engine.load, NEW, SERVED)
    assert (engine.loaded, engine.version) == ("/new", 2)


async def test_after_a_failed_load_the_served_weights_are_loaded_again() -> None:
    engine = Engine({"/new"})
    assert await replace_policy(engine.load, NEW, SERVED) == "unreadable"
    assert (engine.loaded, engine.version) == ("/served", 1)


async def test_mixed_weights_are_never_kept() -> None:
    with pytest.raises(EngineError, match=r"neither /new .* nor the served weights in /served"):
        await replace_policy(Engine({"/new", "/served"}).load, NEW, SERVED)


class ModelConfig:
    model_path = "/served"


class Updater:
    def __init__(self) -> None:
        self.model_config = ModelConfig()

    def update(self, model_path: str, outcome: tuple[bool, str] | Exception) -> tuple[bool, str]:
        """Load weights as SGLang does: set the path first."""
        self.model_config.model_path = model_path
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_a_rollback_that_fails_is_reported_and_the_path_stays_that_of_the_served_weights() -> None:
    updater = Updater()
    done, message = report_failed_load(Updater.update, updater, "/new", OSError("truncated"))
    assert (done, message, updater.model_config.model_path) == (False, "OSError: truncated", "/served")
    assert report_failed_load(Updater.update, updater, "/new", (True, "")) == (True, "")
    assert updater.model_config.model_path == "/new"

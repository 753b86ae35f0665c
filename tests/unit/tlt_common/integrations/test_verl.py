"""How verl is told of the suite. What needs verl itself runs where it is installed."""

from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tlt_common.errors import ConfigError
from tlt_common.integrations.connection import Connection
from tlt_common.integrations.verl.settings import require_supported

KEY = "engine_kwargs.tlt"


async def test_the_connection_is_read_from_verls_configuration(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a" * 32)
    connection = Connection.of({"endpoint": ["a:1", "b:1"], "tls": False, "token_file": str(token)}, key=KEY)
    async with connection.client() as client:
        assert client.endpoint == "a:1, b:1"
    assert Connection.of({"endpoint": "a:1"}, key=KEY).endpoint == ("a:1",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"engine_kwargs\.tlt\.endpoint is missing"),
        ({"endpoint": "a:1", "adress": 1}, r"tlt\.adress: accepted: end"),
    ],
)
def test_a_key_that_is_missing_or_unknown_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Connection.of(options, key=KEY)


def settings(**changes: Any) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Return verl's settings of rollouts and model."""
    rollout = {
        "full_determinism": False, "enable_rollout_routing_replay": False, "prometheus": SimpleNamespace(enable=False),
        "checkpoint_engine": SimpleNamespace(backend="tlt"),
    }  # fmt: skip
    model: dict[str, Any] = {"lora_rank": 0, "lora": {}, "lora_adapter_path": None}
    for name, value in changes.items():
        (rollout if name in rollout else model)[name] = value
    return SimpleNamespace(**rollout), SimpleNamespace(**model)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"full_determinism": True}, r"rollout\.full_determinism"),
        ({"enable_rollout_routing_replay": True}, r"rollout\.enable_rollout_routing_replay"),
        ({"prometheus": SimpleNamespace(enable=True)}, r"rollout\.prometheus"),
        ({"checkpoint_engine": SimpleNamespace(backend="delta_sharded")}, r"checkpoint_engine\.backend: accepted: tlt"),
        ({"lora_rank": 8}, r"model\.lora\.merge: accepted: True"),
        ({"lora": {"rank": 8}}, r"model\.lora\.merge"),
        ({"lora_adapter_path": "/adapter"}, r"model\.lora\.merge"),
    ],
)
def test_settings_that_cannot_be_honored_are_named(change: dict[str, Any], field: str) -> None:
    require_supported(*settings())
    require_supported(*settings(lora_rank=8, lora={"merge": True}))
    with pytest.raises(ConfigError, match=field):
        require_supported(*settings(**change))


def test_verl_finds_the_plugin() -> None:
    (found,) = entry_points(group="verl.plugins", name="tlt")
    assert Path(*found.module.split(".")).with_suffix(".py").as_posix() == "tlt_common/integrations/verl/plugin.py"


async def test_verl_knows_the_suite_by_its_name() -> None:
    pytest.importorskip("verl")
    from verl.checkpoint_engine import CheckpointEngineRegistry
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    from tlt_common.integrations.verl.plugin import TltCheckpointEngine, TltReplica
    from tlt_common.integrations.verl.router import TltRouter

    assert RolloutReplicaRegistry.get("tlt") is TltReplica
    assert CheckpointEngineRegistry.get("tlt") is TltCheckpointEngine
    weights = iter([("a", 1), ("b", 2)])
    follower = CheckpointEngineRegistry.new("tlt", bucket_size=1, is_master=False, endpoint="a:1")
    assert await follower.send_weights(weights, global_steps=1) == {}
    assert list(weights) == []  # it took part in gathering them
    with pytest.raises(ConfigError, match=r"rollout\.name=tlt"):
        _ = [pair async for pair in follower.receive_weights()]
    server = SimpleNamespace(generate=SimpleNamespace(remote=dict))
    _, turn = TltRouter({"a:1#0": server}, {}).acquire_server("conversation")
    assert turn.generate.remote(request_id="turn") == {"session_id": "conversation", "request_id": "turn"}

"""Settings of verl that the suite does not support."""

from collections.abc import Iterator
from typing import Any

from tlt_common.errors import ConfigError


def require_supported(rollout: Any, model: Any) -> None:
    """
    Check verl's settings of rollouts and model.

    Args:
        rollout: verl's RolloutConfig.
        model: verl's `actor_rollout_ref.model`.

    Raises:
        ConfigError: A setting is not supported; the message names it.
    """
    for field, accepted, reason in _refused(rollout, model):
        raise ConfigError(f"{field}: accepted: {accepted}; {reason}", field=field)


def _refused(rollout: Any, model: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each unsupported setting, the accepted value, and the reason."""
    if (backend := rollout.checkpoint_engine.backend) != "tlt":
        # delta_sharded reads changes from verl's trainer by itself: verl gives them to the engine of that name only.
        yield "rollout.checkpoint_engine.backend", "tlt", f"{backend} sends weights to verl's own rollout servers"
    if rollout.full_determinism:
        yield "rollout.full_determinism", "False", "the engines are shared, so batches differ between runs"
    if rollout.enable_rollout_routing_replay:
        yield (
            "rollout.enable_rollout_routing_replay",
            "False",
            "this adapter does not pass on which experts computed a response",
        )
    if rollout.prometheus.enable:
        yield "rollout.prometheus.enable", "False", "scrape the suite's own ports"
    has_adapter = model.lora_rank > 0 or model.lora.get("rank", 0) > 0 or model.lora_adapter_path is not None
    if has_adapter and not model.lora.get("merge", False):
        # verl's separate trainers call get_per_tensor_param() without base_sync_done: an adapter never leaves them.
        yield "model.lora.merge", "True", "verl sends checkpoint engines the base weights without the adapter otherwise"

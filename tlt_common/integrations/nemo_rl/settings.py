"""NeMo-RL's configuration of generation: `policy.generation`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tlt_common.errors import ConfigError
from tlt_common.integrations.connection import Connection

GENERATION = "policy.generation"
TRANSPORT = "tlt_suite.nemo_rl:TltWeightSender"
"""The `refit_transport` by which NeMo-RL's policy workers find the class that sends weights."""
KEY = f"{GENERATION}.refit_cfg.{TRANSPORT}"
"""Where the configuration has the connection."""


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of `Connection` in the configuration, whether NeMo-RL has validated `refit_cfg` yet or not."""
    refit = config.get("refit_cfg")
    named = refit if isinstance(refit, Mapping) else getattr(refit, "model_extra", None)
    return dict((named or {}).get(TRANSPORT) or {})


def connection_of(config: Mapping[str, Any]) -> Connection:
    """
    Return the connection to the gateway.

    Raises:
        ConfigError: The endpoint is missing, or a key is unknown.
    """
    return Connection.of(options_of(config), key=KEY)


def require_supported(config: Mapping[str, Any]) -> None:
    """
    Check NeMo-RL's settings of generation.

    Raises:
        ConfigError: A setting is not supported; the message names it.
    """
    for name, accepted, reason in _refused(config):
        raise ConfigError(f"{GENERATION}.{name}: accepted: {accepted}; {reason}", field=f"{GENERATION}.{name}")


def require_policy_supported(policy: Any) -> None:
    """
    Check the settings of the policy whose weights are to be sent.

    Args:
        policy: NeMo-RL's Policy.

    Raises:
        ConfigError: It trains a draft model of its own.
    """
    if ((getattr(policy, "cfg", None) or {}).get("draft") or {}).get("enabled"):
        raise ConfigError(
            "policy.draft.enabled: accepted: false; the suite trains the draft model, and workers refuse the tensors "
            "of another one",
            field="policy.draft.enabled",
        )


def _refused(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each unsupported setting, the accepted value, and the reason."""
    if (backend := config.get("backend")) != "vllm":
        yield "backend", "vllm", f"the suite takes the place of NeMo-RL's class for vLLM, not of that for {backend}"
    if (config.get("colocated") or {}).get("enabled"):
        yield "colocated.enabled", "false", "the suite's workers have GPUs of their own"
    if config.get("refit_transport") != TRANSPORT:
        yield "refit_transport", TRANSPORT, "NeMo-RL's other transports end in its own vLLM workers"
    if config.get("quant_cfg") is not None or config.get("real_quant"):
        yield "quant_cfg", "null, with real_quant false", "workers have their own configuration of quantization"
    vllm, engine = config.get("vllm_cfg") or {}, config.get("vllm_kwargs") or {}
    if vllm.get("precision") == "fp8":
        yield "vllm_cfg.precision", "bfloat16, float16 or float32", "workers choose the precision of the engine"
    if str(vllm.get("kv_cache_dtype") or "auto").startswith("fp8"):
        yield "vllm_cfg.kv_cache_dtype", "auto", "NeMo-RL's scales of the KV cache are not sent to workers"
    if vllm.get("expose_http_server"):
        yield "vllm_cfg.expose_http_server", "false", "rollouts by NeMo-Gym are not supported"
    if vllm.get("video") is not None:
        yield "vllm_cfg.video", "null", "only text is supported"
    if engine.get("speculative_config") is not None:
        yield "vllm_kwargs.speculative_config", "null", "workers speculate by themselves"
    if vllm.get("enable_return_routed_experts") or engine.get("enable_return_routed_experts"):
        yield (
            "vllm_kwargs.enable_return_routed_experts",
            "false, and policy.router_replay.enabled false",
            "this adapter does not pass on which experts computed a response",
        )

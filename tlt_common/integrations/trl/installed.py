"""
Locates the parts of the installed TRL that the integration uses.

Up to 1.17 the asynchronous trainer is below `trl.experimental.async_grpo`; from 1.18 it is exported by `trl`, and its
rollout loop is in `trl.trainer.async_grpo_trainer`. Versions are distinguished by their contents, not by their number.
"""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module, metadata
from typing import Any

from tlt_common.errors import InvalidRequestError

SAMPLES = ("trl.trainer.async_grpo_trainer", "trl.experimental.async_grpo.async_rollout_worker")
TRAINERS = ("trl", "trl.experimental.async_grpo")
HOOKS = ("rollout_worker", "weight_transfer")
WITHOUT_HOOKS = (
    "use TRL 1.16, or give this version the gateway's HTTP address as vllm_server_base_url (docs/trainers.md)"
)


def sample_class() -> Any:
    """
    Return TRL's RolloutSample.

    Raises:
        InvalidRequestError: This TRL lacks it at all known places.
    """
    return _found("RolloutSample", SAMPLES)


def sample_of(kind: Any, **values: Any) -> Any:
    """
    Return a RolloutSample with those values that it has fields for.

    Raises:
        InvalidRequestError: It requires a field that is not among the values.
    """
    known = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(kind)}
    if missing := [name for name, is_required in known.items() if is_required and name not in values]:
        raise InvalidRequestError(
            f"RolloutSample of TRL {version()} requires {', '.join(missing)}, which this integration does not know; "
            "accepted: TRL 1.16",
            field="trl",
        )
    return kind(**{name: value for name, value in values.items() if name in known})


def note_queued(sample: Any, at_unix_s: float) -> None:
    """Set the queueing time of a sample if its class has such a field."""
    if hasattr(sample, "enqueued_at"):
        sample.enqueued_at = at_unix_s


def parsed_response(tokenizer: Any, token_ids: list[int], **options: Any) -> dict[str, Any]:
    """Return a response as a message, as TRL parses it. Before 1.16, TRL parses without knowing the tools."""
    parse = _found("parse_response", ("trl.chat_template_utils",))
    taken = inspect.signature(parse).parameters
    found: dict[str, Any] = parse(tokenizer, token_ids, **{name: options[name] for name in options if name in taken})
    return found


def async_trainer() -> tuple[Any, Any]:
    """
    Return TRL's AsyncGRPOTrainer, which accepts a rollout worker and a weight transfer, and its AsyncGRPOConfig.

    Raises:
        InvalidRequestError: This TRL has no such trainer, or its trainer does not accept both.
    """
    trainer = _found("AsyncGRPOTrainer", TRAINERS)
    taken = inspect.signature(trainer.__init__).parameters
    if missing := [name for name in HOOKS if name not in taken]:
        raise InvalidRequestError(
            f"AsyncGRPOTrainer of TRL {version()} takes no {' and no '.join(missing)}; accepted: {WITHOUT_HOOKS}",
            field="trl",
        )
    return trainer, _found("AsyncGRPOConfig", TRAINERS)


def version() -> str:
    """Return the version of the installed TRL; empty if it is not installed."""
    try:
        return metadata.version("trl")
    except metadata.PackageNotFoundError:
        return ""


def _found(name: str, places: tuple[str, ...]) -> Any:
    for place in places:
        try:
            return getattr(import_module(place), name)
        except (ImportError, AttributeError):
            continue
    raise InvalidRequestError(
        f"TRL {version() or '(not installed)'} has no {name} in {' or '.join(places)}; accepted: TRL 1.16",
        field="trl",
    )

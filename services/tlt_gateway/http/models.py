"""Checks the model and the adapter that a call names."""

from tlt_common.errors import InvalidRequestError, NotFoundError
from tlt_gateway.gateway import Gateway


async def require_model(gateway: Gateway, model: str | None, lora_path: str | list[str | None] | None = None) -> None:
    """
    Check that a call names the served model, the loaded adapter, `MODEL:ADAPTER` as in SGLang's protocol, or none.
    Trainers send paths and hub names that end in the model's name.

    Raises:
        NotFoundError: It names another model.
        InvalidRequestError: `lora_path` names another adapter.
    """
    served = gateway.info.model
    if model is not None and not _ends_in(model, served):
        of, _, adapter = model.rpartition(":")
        if not ((of == "" or _ends_in(of, served)) and await gateway.adapters.is_loaded(adapter)):
            names = ", ".join(map(repr, filter(None, (served, gateway.adapters.name))))
            raise NotFoundError(f"model is {model!r}; served: {names or repr(served)}", field="model")
    for name in {lora_path} if isinstance(lora_path, str) else set(lora_path or ()):
        if name and not await gateway.adapters.is_loaded(name):
            accepted = f"null, or {gateway.adapters.name!r}" if gateway.adapters.name else "null: no adapter has a name"
            raise InvalidRequestError(f"lora_path is {name!r}; accepted: {accepted}", field="lora_path")


def _ends_in(model: str, served: str) -> bool:
    return model == served or model.rstrip("/").rpartition("/")[2] == served

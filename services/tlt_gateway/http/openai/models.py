"""Checks the model that a call names."""

from tlt_common.errors import NotFoundError
from tlt_gateway.gateway import Gateway


def require_model(gateway: Gateway, model: str | None) -> None:
    """
    Check that a call names the served model or none. Trainers send paths and hub names that end in the model's name.

    Raises:
        NotFoundError: It names another model.
    """
    served = gateway.info.model
    if model is not None and model != served and model.rstrip("/").rpartition("/")[2] != served:
        raise NotFoundError(f"model is {model!r}; served: {served!r}", field="model")

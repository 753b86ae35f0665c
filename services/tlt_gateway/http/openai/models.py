"""Which model a call may name."""

from tlt_common.errors import NotFoundError
from tlt_gateway.gateway import Gateway


def require_model(gateway: Gateway, model: str | None) -> None:
    """
    Check that a call names the model that is served, or none. Trainers send paths and hub names that end in the name.

    Raises:
        NotFoundError: It names another.
    """
    served = gateway.info.model
    if model is not None and model != served and model.rstrip("/").rpartition("/")[2] != served:
        raise NotFoundError(f"model is {model!r}; served: {served!r}", field="model")

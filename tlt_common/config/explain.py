"""`tlt config explain`: every key with its type, default and meaning, from the model itself."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tlt_common.config.base import model_in


def explain(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Lines for people: `key: type = default`, then the docstring, indented."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from explain(annotation, f"{prefix}{name}.")
            continue
        kind = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        default = "required" if field.default is PydanticUndefined else repr(field.get_default())
        yield f"{prefix}{name}: {kind} = {default}"
        for line in (field.description or "").strip().splitlines():
            yield f"    {line.strip()}"
        if (inner := model_in(annotation)) is not None:
            yield from explain(inner, f"{prefix}{name}.")

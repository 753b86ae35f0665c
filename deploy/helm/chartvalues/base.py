"""Base of the chart's values."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

from tlt_common.config.base import Frozen

Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
"""A Kubernetes quantity, such as 500m or 4Gi."""
Name = Annotated[str, StringConstraints(pattern=r"^$|^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
"""Name of a Kubernetes object; empty means none."""
Labels = dict[str, str]
Auto = bool | Literal["auto"]
"""auto enables it if the cluster has the kind."""


class Values(Frozen):
    """A block of values. Keys are camelCase, as is usual in Kubernetes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        alias_generator=to_camel,
        populate_by_name=True,
    )


def settings_of(service: str) -> dict[str, JsonValue]:
    """Mark a field as the configuration of a service: the generator puts that service's own schema in its place."""
    return {"service": service}


ServiceConfig = dict[str, object]
Count = Annotated[int, Field(ge=0)]
Replicas = Annotated[int, Field(ge=1)]
Seconds = Annotated[int, Field(ge=0)]

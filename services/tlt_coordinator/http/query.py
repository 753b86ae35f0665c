"""Query parsing: single parameters, no unknown ones, and refusals that state what is accepted."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from tlt_common.domain.bounds import MAX_NAME
from tlt_common.errors import InvalidRequestError
from tlt_common.timeline import MAX_COLUMNS, MAX_LANES

MAX_ROWS_AT_ONCE = 512


class NoQuery(BaseModel):
    """A query. The description of each field says what is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SpanQuery(NoQuery):
    """A span of time."""

    from_s: Time | None = Field(None, alias="from", description="a Unix time, by default 15 minutes before `to`")
    to_s: Time | None = Field(None, alias="to", description="a Unix time above `from`, by default now")


class TraceQuery(SpanQuery):
    """Selection of a trace."""

    worker: str | None = Field(
        None, min_length=1, max_length=MAX_NAME, description="the id of a worker, by default all"
    )


class TimelineQuery(TraceQuery):
    """Selection of a timeline."""

    columns: int = Field(512, ge=1, le=MAX_COLUMNS, description=f"1 to {MAX_COLUMNS}")
    rows: int = Field(64, ge=1, le=MAX_LANES, description=f"1 to {MAX_LANES}")
    first: int = Field(0, ge=0, description="how many workers to leave out, in order of their ids")


class WorkersQuery(NoQuery):
    """Selection of listed workers."""

    after: str = Field("", max_length=MAX_NAME, description="the id of a worker, whose successors are returned")
    count: int = Field(128, ge=1, le=MAX_ROWS_AT_ONCE, description=f"1 to {MAX_ROWS_AT_ONCE}")
    state: str | None = Field(None, description="a state of workers, by default all")


class StatusQuery(NoQuery):
    """Amount of detail per worker."""

    max_changes: int = Field(0, ge=0, le=999_999_999, description="a number of changes of state, by default 0")


Q = TypeVar("Q", bound=NoQuery)


def reading(model: type[Q]) -> Callable[[Request], Awaitable[Q]]:
    """Return a dependency that reads the query of a request; it raises InvalidRequestError."""
    accepted = {field.alias or name: field.description or "" for name, field in model.model_fields.items()}
    names = ", ".join(accepted) or "none"

    async def read(request: Request) -> Q:
        given: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in accepted:
                raise InvalidRequestError(f"query parameter {name!r:.40} is unknown; accepted: {names}", field="query")
            if name in given:
                raise InvalidRequestError(f"query parameter {name} is repeated; accepted: at most once", field=name)
            given[name] = value
        try:
            return model.model_validate(given)
        except ValidationError as error:
            name = str(error.errors(include_url=False, include_input=False)[0]["loc"][0])
            raise InvalidRequestError(
                f"{name} is {given[name]!r:.40}; accepted: {accepted[name]}", field=name
            ) from error

    return read


def documented(model: type[NoQuery]) -> dict[str, Any]:
    """Return the parameters of a query for OpenAPI."""
    properties: dict[str, dict[str, JsonValue]] = model.model_json_schema(by_alias=True).get("properties", {})
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": schema["description"],
                "schema": {key: value for key, value in schema.items() if key not in {"title", "description"}},
            }
            for name, schema in properties.items()
        ]
    }

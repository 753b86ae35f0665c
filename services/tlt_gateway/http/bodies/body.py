"""Request bodies. Every field is either honored or refused by name."""

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ClassVar, TypeVar, get_args

from fastapi import Request
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from starlette.requests import ClientDisconnect

from tlt_common.errors import AbortedError, InvalidRequestError, TltError
from tlt_gateway.http.bodies.body_budget import taken_by
from tlt_gateway.http.bodies.json_body import LARGE_BYTES, parsed
from tlt_gateway.http.bodies.shown import shown

T = TypeVar("T", bound="Body")
DISCARDED_BYTES = 64 * 2**20
"""Bytes of a body that is too large that are read all the same: a client that is still sending when the connection
closes loses the answer."""
MAX_IGNORED: Mapping[type, int] = {str: 1024, dict: 16}
"""Maximum size of ignored values, in characters of strings and entries of objects: as OpenAI accepts for `metadata`."""
_SURROGATE = re.compile(r"\\ud[89a-f]")
"""Half a surrogate pair as `repr` writes it."""
_IN_PROMPT = re.compile(r"prompt\.|prompts\[(\d+)\]\.")
_LARGE = ThreadPoolExecutor(1, thread_name_prefix="large-body")
"""One thread: several would keep the event loop from the interpreter's lock in turn."""
_UNKNOWN = "unknown_field"
_PER_PROMPT = {"token_ids", "request_id"}
"""Fields of which protocols have a list for several prompts."""


_AT_ONCE = 2**16
"""Entries looked at before other threads may run."""


def quick_lists(schema: Any) -> None:
    """
    Adapt a pydantic schema for long lists: stop at the first invalid entry, and check lists of integers without copying
    them, in slices between which the event loop runs.
    """
    if isinstance(schema, list):
        for part in schema:
            quick_lists(part)
        return
    if not isinstance(schema, dict):
        return
    for part in schema.values():
        quick_lists(part)
    if schema.get("type") == "list":
        schema["fail_fast"] = True
        if schema.get("items_schema") == core_schema.int_schema():
            slow = core_schema.list_schema(core_schema.int_schema(), strict=True, fail_fast=True)
            schema.clear()
            schema |= core_schema.no_info_wrap_validator_function(_integers, slow)


def _integers(value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
    if type(value) is list and all(
        set(map(type, value[begin : begin + _AT_ONCE])) == {int} for begin in range(0, len(value), _AT_ONCE)
    ):
        return value
    return handler(value)  # which names the entry


class Body(BaseModel):
    """
    A JSON object. Unknown fields are refused, and types are not converted. Null equals an omitted field, unless the
    field gives it a meaning.

    `unsupported` lists fields of the protocol that are not implemented, with the values that request nothing; any other
    value is refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    ignored: ClassVar[Mapping[str, type]] = {}
    """Fields about features that a gateway does not have, such as accounts, with their types. Any value is accepted."""
    ignores_null: ClassVar[bool] = False
    """Whether null is accepted for unknown fields, too: clients send back what other servers answered."""
    path: ClassVar[str] = ""
    """Prefix of field names in messages."""

    @model_validator(mode="before")
    @classmethod
    def _without_unsupported(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        found = {}
        for name, value in content.items():
            if (accepted := cls.unsupported.get(name)) is not None:
                if not any(value == one and type(value) is type(one) for one in accepted):
                    values = ", ".join(map(repr, accepted))
                    raise InvalidRequestError(
                        f"{cls.path}{name} is {shown(value)}; accepted: {values}, or omit it",
                        field=f"{cls.path}{name}",
                    )
            elif (kind := cls.ignored.get(name)) is not None:
                _require_small(f"{cls.path}{name}", value, kind)
            elif name not in cls.model_fields and (value is not None or not cls.ignores_null):
                raise PydanticCustomError(_UNKNOWN, _UNKNOWN, {"name": f"{name:.80}", "accepted": _names(cls)})
            elif name in cls.model_fields and (value is not None or name not in _without_null(cls)):
                found[name] = value
        return found

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let validation end at the first invalid entry of a list: there may be a million of them."""
        schema = handler(source)
        quick_lists(schema)
        return schema


def _require_small(field: str, value: object, kind: type) -> None:
    if value is None:
        return
    if not isinstance(value, kind) or len(value) > MAX_IGNORED[kind] or _SURROGATE.search(repr(value)):  # type: ignore[arg-type] # both have a length
        what = "a string of at most" if kind is str else "an object with at most"
        unit = "characters" if kind is str else "entries"
        raise InvalidRequestError(
            f"{field} is {shown(value)}; accepted: {what} {MAX_IGNORED[kind]} {unit}, which has no effect", field=field
        )


class NoFields(Body):
    """The body of a call without fields."""


class BodyTooLargeError(Exception):
    """The body is larger than the server accepts. Used over HTTP only: gRPC refuses such messages itself."""


async def body_of(request: Request, kind: type[T], *, max_bytes: int) -> T:
    """
    Read and validate a request's body. An empty one is an empty object.

    Raises:
        BodyTooLargeError: It has more than `max_bytes`.
        AbortedError: The client hung up.
        OverloadedError: Too many bodies are being read.
        InvalidRequestError: It is not JSON, or a field is unknown or invalid; the message names it.
    """
    try:
        with taken_by(request) as taken:
            content = await _content(request, max_bytes, taken.grow)
            # A large one in a thread: the event loop streams tokens to others.
            if len(content) > LARGE_BYTES:
                return await asyncio.get_running_loop().run_in_executor(_LARGE, _validated, kind, content)
        return _validated(kind, content)
    except ValidationError as error:
        raise _named(error) from None
    except ValueError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}", field="body") from None


async def no_body(request: Request, *, max_bytes: int) -> None:
    """
    Require an empty body, or an empty object, for a call that takes none.

    Raises:
        BodyTooLargeError, AbortedError, InvalidRequestError: As for `body_of`.
    """
    await body_of(request, NoFields, max_bytes=max_bytes)


def _validated(kind: type[T], content: bytearray) -> T:
    return kind.model_validate(parsed(content) if content else {})


async def _content(request: Request, max_bytes: int, grow: Callable[[int], None]) -> bytearray:
    """
    Read a body, calling `grow` with the number of bytes received so far.

    Raises:
        BodyTooLargeError, AbortedError, OverloadedError: As for `body_of`.
        InvalidRequestError: It is compressed, or in another form than JSON.
    """
    _require_plain(request)
    declared = request.headers.get("content-length", "0")
    length = int(declared) if declared.isdecimal() and len(declared) < 20 else 0
    content, most = bytearray(), max_bytes + DISCARDED_BYTES
    if length <= most:
        length = 0
        try:
            async for piece in request.stream():
                length += len(piece)
                if length <= max_bytes:
                    grow(length)
                    content += piece
                elif length > most:
                    break
        except ClientDisconnect:
            raise AbortedError("the client hung up before it had sent the body") from None
    if length > max_bytes:
        raise BodyTooLargeError(f"the body exceeds the maximum of {max_bytes} bytes")
    return content


def _require_plain(request: Request) -> None:
    """
    Raises:
        InvalidRequestError: The headers say that the body is compressed, in parts, or in another character set.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() not in {"", "identity"}:
        raise InvalidRequestError(
            f"Content-Encoding is {shown(encoding)}; compressed bodies are not supported",
            field="Content-Encoding",
        )
    kind, _, options = request.headers.get("content-type", "").lower().partition(";")
    charset = options.partition("charset=")[2].partition(";")[0].strip(' "')
    # curl says that it sends a form, whatever it sends.
    if kind.startswith("multipart/") or charset not in {"", "utf-8", "utf8", "us-ascii"}:
        raise InvalidRequestError(
            f"Content-Type is {shown(request.headers['content-type'])}; accepted: application/json, in UTF-8",
            field="Content-Type",
        )


def _named(error: ValidationError) -> InvalidRequestError:
    # Of a union, pydantic reports each member; the one that fits best fails deepest.
    first = max(error.errors(include_url=False), key=lambda one: len(one["loc"]) + (one["type"] == _UNKNOWN))
    place = [str(part) for part in first["loc"] if not _is_variant(part)]
    if first["type"] == _UNKNOWN:
        field = ".".join([*place, first["ctx"]["name"]])
        return InvalidRequestError(f"{field} is unknown; accepted: {', '.join(first['ctx']['accepted'])}", field=field)
    field = ".".join(place) or "body"
    return InvalidRequestError(f"{field}: {first['msg']}; got {shown(first['input'])}", field=field)


@cache
def _without_null(kind: type[Body]) -> frozenset[str]:
    """Return the fields that are optional and give null no meaning."""
    return frozenset(
        name
        for name, field in kind.model_fields.items()
        if not field.is_required() and type(None) not in get_args(field.annotation)
    )


def _is_variant(part: int | str) -> bool:
    """Whether pydantic names a member of a union here, such as list[int], rather than a field."""
    return isinstance(part, str) and (part in {"int", "str", "bool", "float"} or "[" in part or part[:1].isupper())


@cache
def _names(kind: type[Body]) -> tuple[str, ...]:
    return tuple(sorted({*kind.model_fields, *kind.unsupported, *kind.ignored}))


def strings_of(given: str | list[str] | None) -> tuple[str, ...]:
    """Return the strings of a field that holds one string, a list, or nothing. An empty string counts as nothing."""
    if isinstance(given, str):
        return (given,) if given else ()
    return tuple(given or ())


def renamed(error: TltError, names: Mapping[str, str], *, many: bool = False) -> TltError:
    """
    Return an error with its field renamed as in the caller's protocol.

    Args:
        error: The error.
        names: Names in the protocol, by prefixes of ours, without `prompt.` or `prompts[3].`.
        many: Whether the call has several prompts, so that the name of a prompt's field ends in its index.
    """
    inside = _IN_PROMPT.match(error.field)
    ours = error.field[inside.end() :] if inside else error.field
    for begin, theirs in names.items():
        if ours.startswith(begin):
            is_own = many and inside is not None and inside[1] and begin in _PER_PROMPT
            field = theirs + (f"[{inside[1]}]" if is_own and inside else "") + ours[len(begin) :]
            error.message = error.message.replace(error.field, field)
            error.field, error.args = field, (error.message,)
            break
    return error

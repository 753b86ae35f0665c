"""Request bodies: every field is honoured, or refused by its name."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar, get_args

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from starlette.requests import ClientDisconnect

from tlt_common.documents import json_of
from tlt_common.errors import AbortedError, InvalidRequestError, TltError

T = TypeVar("T", bound="Body")
DISCARDED_BYTES = 64 * 2**20
"""Bytes of a body that is too large that are read all the same: a client that is still sending when the connection
closes loses the answer."""
_IN_PROMPT = re.compile(r"prompt\.|prompts\[(\d+)\]\.")
_PER_PROMPT = {"token_ids", "request_id"}
"""Fields of which protocols have a list for several prompts."""


class Body(BaseModel):
    """
    A JSON object. Unknown fields are refused, and types are not converted.

    `unsupported` lists fields of the protocol that have no effect here, with the values that ask for none; a field with
    any other value is refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    path: ClassVar[str] = ""
    """Prefix of the fields' names in messages."""

    @model_validator(mode="before")
    @classmethod
    def _without_unsupported(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        for name, accepted in cls.unsupported.items():
            if name in content and not any(
                content[name] == one and type(content[name]) is type(one) for one in accepted
            ):
                values = ", ".join(map(repr, accepted))
                raise InvalidRequestError(
                    f"{cls.path}{name} is {content[name]!r:.80}; accepted: {values}, or leave it out",
                    field=f"{cls.path}{name}",
                )
        return {name: value for name, value in content.items() if name not in cls.unsupported}


class BodyTooLargeError(Exception):
    """The body is larger than the server accepts. Known to HTTP only: gRPC refuses such messages by itself."""


async def body_of(request: Request, kind: type[T], *, max_bytes: int) -> T:
    """
    Read and validate a request's body. An empty one is an empty object.

    Raises:
        BodyTooLargeError: It has more than `max_bytes`.
        AbortedError: The client hung up.
        InvalidRequestError: It is not JSON, or a field is unknown or invalid; the message names it.
    """
    try:
        content = await _content(request, max_bytes)
    except ClientDisconnect:
        raise AbortedError("the client hung up before it had sent the body") from None
    try:
        return kind.model_validate(json_of(content) if content else {})
    except ValidationError as error:
        raise _named(error, kind) from None
    except ValueError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}", field="body") from None


async def _content(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    length = int(declared) if declared.isdecimal() else 0
    content, most = bytearray(), max_bytes + DISCARDED_BYTES
    if length <= most:
        length = 0
        async for piece in request.stream():
            length += len(piece)
            if length <= max_bytes:
                content += piece
            elif length > most:
                break
    if length > max_bytes:
        raise BodyTooLargeError(f"the body has more than {max_bytes} bytes; accepted: at most as many")
    return bytes(content)


def _named(error: ValidationError, kind: type[Body]) -> InvalidRequestError:
    # Of a union, pydantic reports each member; the one that fits best fails deepest.
    first = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    field = ".".join(str(part) for part in first["loc"] if not _is_variant(part)) or "body"
    if first["type"] == "extra_forbidden":
        return InvalidRequestError(
            f"{field} is no field of this call; accepted: {', '.join(_names(_owner(kind, first['loc'])))}", field=field
        )
    return InvalidRequestError(f"{field}: {first['msg']}; got {first['input']!r:.80}", field=field)


def _owner(kind: type[Body], place: tuple[int | str, ...]) -> type[Body]:
    """Return the class of the object that has the field at `place`."""
    for part in place[:-1]:
        if isinstance(part, str) and (field := kind.model_fields.get(part)) is not None:
            kind = next(_bodies_in(field.annotation), kind)
    return kind


def _bodies_in(annotation: Any) -> Iterator[type[Body]]:
    if isinstance(annotation, type) and issubclass(annotation, Body):
        yield annotation
    for choice in get_args(annotation):
        yield from _bodies_in(choice)


def _is_variant(part: int | str) -> bool:
    """Whether pydantic names a member of a union here, such as list[int], and no field."""
    return isinstance(part, str) and (part in {"int", "str", "bool", "float"} or "[" in part or part[:1].isupper())


def _names(kind: type[Body]) -> list[str]:
    return sorted({*(field.alias or name for name, field in kind.model_fields.items()), *kind.unsupported})


def strings_of(given: str | list[str] | None) -> tuple[str, ...]:
    """Return a field's strings, of which there may be one, a list, or none; an empty one asks for nothing."""
    if isinstance(given, str):
        return (given,) if given else ()
    return tuple(given or ())


def renamed(error: TltError, names: Mapping[str, str], *, many: bool = False) -> TltError:
    """
    Give an error's field the name that it has in the caller's protocol.

    Args:
        error: The error.
        names: Names in the protocol, by the beginnings of ours, without `prompt.` or `prompts[3].`.
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

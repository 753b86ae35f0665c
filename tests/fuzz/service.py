"""All methods of a service as targets: structured messages, and raw bytes."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import message_factory, text_format
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile
from tests.fuzz.calls import Call, Caller, Ending, Method
from tests.fuzz.host import Announce, hosted
from tests.fuzz.messages import messages
from tests.fuzz.target import Subject, Target

Valid: TypeAlias = Mapping[str, Sequence[Message]]
"""Valid messages by the name of the method; for a stream, in their order."""

CONTROL_EVERY = 50
"""Inputs between two control calls."""


def service_targets(
    name: str,
    service: ServiceDescriptor,
    serve: Callable[[Announce, Path], Awaitable[None]],
    *,
    control: str,
    valid: Valid,
    endless: frozenset[str] = frozenset(),
    weight: float = 1.0,
) -> tuple[Target, ...]:
    """
    Return the targets of a service: one for structured messages, one for raw bytes.

    Args:
        name: Name of the service.
        service: Its descriptor, from which the messages are drawn.
        serve: Runs it until cancelled, with a directory for its files.
        control: Method whose valid call must always succeed.
        valid: Valid messages, from which most inputs differ in a few fields.
        endless: Methods whose valid calls end only when the caller ends them.
        weight: Weight of the structured target; raw bytes get half of it.
    """

    @contextmanager
    def opened(kind: Callable[[Method, MethodDescriptor], SearchStrategy[Call]], directory: Path) -> Iterator[Subject]:
        methods = {one.name: _method(one, endless) for one in service.methods}
        request = Call(method=methods[control], messages=tuple(one.SerializeToString() for one in valid[control]))
        inputs = st.one_of([kind(methods[one.name], one) for one in service.methods])
        with hosted(partial(_in_directory, serve, directory)) as host:
            fed = 0

            async def connected() -> Caller:
                return Caller(host.address, request)

            caller = host.run(connected())

            def feed(call: Call) -> None:
                nonlocal fed
                fed += 1
                host.run(caller.try_(call))
                if fed % CONTROL_EVERY == 0:
                    host.run(caller.require_control())
                host.check()

            try:
                host.run(caller.require_control())
                host.check()
                yield Subject(inputs=inputs, feed=feed, show=partial(_shown, service))
            finally:
                host.run(caller.aclose())

    return (
        Target(name=f"{name}.messages", open=partial(opened, partial(_structured, valid)), weight=weight),
        Target(name=f"{name}.bytes", open=partial(opened, partial(_raw, valid)), weight=weight / 2),
    )


async def _in_directory(
    serve: Callable[[Announce, Path], Awaitable[None]], directory: Path, announce: Announce
) -> None:
    await serve(announce, directory)


def _method(one: MethodDescriptor, endless: frozenset[str]) -> Method:
    return Method(
        path=f"/{one.containing_service.full_name}/{one.name}",
        client_streams=one.client_streaming,
        server_streams=one.server_streaming,
        is_endless=one.name in endless,
    )


def _calls(method: Method, message: SearchStrategy[bytes], valid: Sequence[bytes]) -> SearchStrategy[Call]:
    make = partial(Call, method=method)
    if not method.client_streams:
        endings = (Ending.HALF_CLOSE,) * 7 + ((Ending.CANCEL,) if method.server_streams else ())
        return st.builds(make, messages=st.tuples(message), ending=st.sampled_from(endings))
    any_order = st.lists(message, max_size=5)
    begun = st.builds(lambda count, rest: [*valid[:count], *rest], st.integers(0, len(valid)), any_order)
    ending = st.sampled_from((Ending.HALF_CLOSE,) * 4 + (Ending.CANCEL, Ending.NEVER))
    return st.builds(make, messages=st.one_of(begun, any_order).map(tuple), ending=ending)


def _structured(valid: Valid, method: Method, one: MethodDescriptor) -> SearchStrategy[Call]:
    known = valid.get(one.name, ())
    kind: type[Message] = message_factory.GetMessageClass(one.input_type)
    message = messages(kind, known).map(lambda drawn: drawn.SerializeToString())
    return _calls(method, message, [message.SerializeToString() for message in known])


def _raw(valid: Valid, method: Method, one: MethodDescriptor) -> SearchStrategy[Call]:
    known = [message.SerializeToString() for message in valid.get(one.name, ())]
    return _calls(method, hostile.mutated(known), known)


def _shown(service: ServiceDescriptor, call: Call) -> str:
    method = service.methods_by_name[call.method.path.rpartition("/")[2]]
    kind: type[Message] = message_factory.GetMessageClass(method.input_type)
    shown = "; ".join(_text(kind, data) for data in call.messages)
    return f"{method.name}({shown}) then {call.ending}"


def _text(kind: Any, data: bytes) -> str:
    try:
        return text_format.MessageToString(kind.FromString(data), as_one_line=True)
    except DecodeError:
        return f"bytes {data.hex()}"

"""No text of a request is longer than its limit, whatever service it is sent to."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from tlt_common.domain.bounds import MAX_ABORTED, MAX_INTERNAL_ID, MAX_URI
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import coordinator, hidden, rollout, trainer, tuner, worker
from tlt_common.wire.texts import CUT, require_short_texts

LONG = "a" * (MAX_URI + 1)
SERVICES = [
    service
    for module in (coordinator, hidden, rollout, trainer, tuner, worker)
    for service in module.pb.DESCRIPTOR.services_by_name.values()
]
REQUESTS = {method.input_type.full_name: method.input_type for service in SERVICES for method in service.methods}


def texts(kind: Descriptor, *before: FieldDescriptor) -> Iterator[tuple[FieldDescriptor, ...]]:
    """Yield the way to each text of a message."""
    for field in kind.fields:
        if field.message_type is not None:
            yield from texts(field.message_type, *before, field)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield *before, field


WAYS = [(kind, way) for kind in REQUESTS.values() for way in texts(kind)]


def made(kind: Descriptor, way: tuple[FieldDescriptor, ...]) -> tuple[Any, str]:
    """Return a message that has one long text, and the path of that."""
    message = GetMessageClass(kind)()
    place: Any = message
    path = ".".join(f"{field.name}[0]" if field.is_repeated else field.name for field in way)
    for field in way[:-1]:
        place = getattr(place, field.name)
        if field.is_repeated:
            place = place.add()
    if way[-1].is_repeated:
        getattr(place, way[-1].name).append(LONG)
    else:
        setattr(place, way[-1].name, LONG)
    return message, path


@pytest.mark.parametrize(
    ("kind", "way"), WAYS, ids=[f"{kind.name} {'.'.join(field.name for field in way)}" for kind, way in WAYS]
)
def test_a_long_text_is_refused_by_its_path(kind: Descriptor, way: tuple[FieldDescriptor, ...]) -> None:
    message, path = made(kind, way)
    if way[-1].full_name in CUT:
        require_short_texts(message)
        return
    prompts = [place for place, field in enumerate(way) if field.full_name.endswith((".prompt", ".prompts"))]
    if not prompts:
        with pytest.raises(InvalidRequestError, match="4097 characters; accepted: at most") as refused:
            require_short_texts(message)
        assert refused.value.field == path
        return
    prompt = rollout.pb.GenerateRequest().prompt
    place: Any = prompt
    for field in way[prompts[0] + 1 : -1]:
        place = getattr(place, field.name)
    value = getattr(place, way[-1].name)
    if way[-1].is_repeated:
        value.append(LONG)
    else:
        setattr(place, way[-1].name, LONG)
    with pytest.raises(InvalidRequestError, match="4097 characters; accepted: ") as refused:
        rollout.prompt_from_pb(prompt)
    assert refused.value.field.endswith(way[-1].name)


def test_there_are_texts_in_the_requests_of_all_services_but_the_cache() -> None:
    assert {kind.full_name.split(".")[1] for kind, _ in WAYS} >= {"coordinator", "rollout", "tuner", "worker"}


def test_short_texts_are_accepted() -> None:
    require_short_texts(rollout.pb.AbortRequest(request_ids=["a" * MAX_INTERNAL_ID] * 3))
    require_short_texts(worker.pb.GenerateManyRequest(hang_up="a"))
    require_short_texts(rollout.pb.GetServerInfoRequest())


def test_so_many_ids_are_aborted_at_once() -> None:
    assert len(rollout.aborted_from_pb(rollout.pb.AbortRequest(request_ids=["a"] * MAX_ABORTED))) == MAX_ABORTED
    with pytest.raises(InvalidRequestError, match="the maximum is 8192"):
        rollout.aborted_from_pb(rollout.pb.AbortRequest(request_ids=["a"] * (MAX_ABORTED + 1)))
    with pytest.raises(InvalidRequestError, match=r"request_ids\[1\] is .*; accepted: printable"):
        rollout.aborted_from_pb(rollout.pb.AbortRequest(request_ids=["a", "\0"]))

"""Every pair of a dataclass and a message loses nothing, and neither side has a field of its own."""

from dataclasses import MISSING, fields, make_dataclass
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.domain.fleet import (
    DrafterWish,
    PastChange,
    Publication,
    ReportInterval,
    WorkerAccount,
    WorkerHello,
    WorkerState,
)
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.pause import Pause
from tlt_common.domain.server_info import ServerInfo
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import InvalidRequestError
from tlt_common.load import WorkerLoad
from tlt_common.wire import coordinator, hidden, load, rollout, trainer, transfer, tuner, worker
from tlt_common.wire.convert import PAIRS, Declaration, Unsent, numbers_of, pair

assert {coordinator, hidden, load, rollout, trainer, transfer, tuner, worker}, "they declare the pairs"

counts = st.integers(0, 2**31 - 1)
shares = st.floats(0.0, 1.0)
texts = st.text(st.characters(categories=["L", "N", "P"]), max_size=9)
names = st.text("abc-0123", min_size=1, max_size=9)
SCALARS = {int: counts, float: shares, str: texts, bool: st.booleans(), bytes: st.binary(max_size=9)}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a type."""
    item = next((each for each in get_args(hint) if each not in (NoneType, Ellipsis)), hint)
    item = getattr(item, "__supertype__", item)
    found = SCALARS[item] if item in SCALARS else st.sampled_from(item) if issubclass(item, Enum) else made(item)
    if get_origin(hint) is tuple:
        return st.lists(found, max_size=3).map(tuple)
    return st.none() | found if NoneType in get_args(hint) else found


def made(kind: type[Any], *unsent: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of a dataclass, with defaults for `unsent` fields."""
    hints = get_type_hints(kind)
    known = {name: found for (of, name), found in UNUSUAL.items() if of is kind} | given
    others = {each.name: values(hints[each.name]) for each in fields(kind) if each.name not in {*known, *unsent}}
    return st.builds(kind, **known, **others)


def history(ages: list[float]) -> tuple[PastChange, ...]:
    return tuple(PastChange(state=WorkerState.IDLE, age_s=age_s) for age_s in sorted(ages, reverse=True))


UNUSUAL: dict[tuple[type[Any], str], st.SearchStrategy[Any]] = {
    (CapturePolicy, "state_bits"): st.sampled_from((8, 16)),
    (DrafterWish, "version"): st.integers(1, 9),
    (PoolKey, "fleet"): names,
    (Posterior, "arms"): st.lists(st.deferred(lambda: made(ArmWindow, "kv_tokens"))).map(tuple),
    (Publication, "uri"): names,
    (ReportInterval, "seconds"): st.floats(0.1, 9.0),
    (ServerInfo, "pause"): st.builds(Pause, left_s=shares),
    (WorkedRounds, "arms"): st.lists(
        st.deferred(lambda: made(ArmWindow, "drafted_tokens", median_reward=st.just(0.0)))
    ).map(tuple),
    (WorkerAccount, "seconds"): st.dictionaries(st.sampled_from(WorkerState), shares),
    (WorkerAccount, "unsettled"): st.just({}),
    (WorkerHello, "address"): names,
    (WorkerHello, "devices"): st.integers(8, 1024),
    (WorkerHello, "history"): st.lists(shares, max_size=3).map(history),
    (WorkerHello, "training_devices"): st.integers(1, 8),
    (WorkerHello, "worker_id"): names,
    (WorkerLoad, "worker_id"): names,
}
"""Fields of whose values the type does not say everything."""


@pytest.mark.parametrize("declared", PAIRS.values(), ids=lambda of: f"{of.kind.__name__}-{of.message.DESCRIPTOR.name}")
@given(st.data())
def test_what_is_sent_arrives(declared: Declaration, data: st.DataObject) -> None:
    unsent = {name: of.value for name, of in declared.declared.items() if isinstance(of, Unsent)}
    given = {name: st.just(value) for name, value in unsent.items() if value is not MISSING}
    value = data.draw(made(declared.kind, *unsent, **given))
    write, read = declared.codec()
    assert read(declared.message.FromString(write(value).SerializeToString())) == value


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        ({"epoch": int, "more": int}, r"Side\.more is not in tlt\.coordinator\.v1\.RevokeLease"),
        ({}, r"tlt\.coordinator\.v1\.RevokeLease\.epoch is not in Side"),
        ({"epoch": str}, r"RevokeLease\.epoch is not of type"),
        ({"epoch": int | None}, r"RevokeLease\.epoch is not of type"),
        ({"epoch": tuple[int, ...]}, r"RevokeLease\.epoch is not of type"),
    ],
)
def test_what_only_one_side_has_is_noticed(own: dict[str, Any], refused: str) -> None:
    with pytest.raises(TypeError, match=refused):
        pair(make_dataclass("Side", own.items()), coordinator.pb.RevokeLease)


def test_a_declaration_of_no_field_is_noticed() -> None:
    with pytest.raises(TypeError, match=r"RevokeLease\.more is not in Side"):
        pair(make_dataclass("Side", [("epoch", int)]), coordinator.pb.RevokeLease, more="epoch")


def test_a_member_that_only_one_side_has_is_noticed() -> None:
    class Side(StrEnum):
        LENT = "lent"

    with pytest.raises(TypeError, match="LENT"):
        numbers_of(Side, coordinator.pb.WorkerState.DESCRIPTOR)


UNKNOWN: dict[str, Any] = {"state": 99}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (coordinator.pb.FleetMember(), "hello"),
        (
            coordinator.pb.FleetMember(
                hello=coordinator.pb.WorkerHello(worker_id="w", address="a:1"),
                status=coordinator.pb.WorkerStatus(**UNKNOWN),
            ),
            "status.state",
        ),
    ],
)
def test_what_is_missing_or_unknown_is_refused_by_its_path(message: coordinator.pb.FleetMember, field: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"{field} is .*; accepted: ") as refused:
        coordinator.member_from_pb(message)
    assert refused.value.field == field

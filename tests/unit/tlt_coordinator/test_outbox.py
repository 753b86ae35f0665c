import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import DrafterWish, Lease, Revocation
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_common.errors import AbortedError
from tlt_coordinator.outbox import Order, Orders


def lease(epoch: int) -> Lease:
    return Lease(epoch=Epoch(epoch), ttl_s=5.0)


def revocation(epoch: int) -> Revocation:
    return Revocation(epoch=Epoch(epoch))


def wish(version: int) -> DrafterWish:
    return DrafterWish(version=DrafterVersion(version), uri=f"file:///{version}")


def drain(outbox: Orders) -> list[Order]:
    return list(iter(outbox.take, None))


def test_a_slow_reader_finds_the_latest_order_of_each_kind() -> None:
    outbox = Orders()
    for order in (wish(1), revocation(1), lease(2), wish(2), lease(2)):
        outbox.put(order)
    assert drain(outbox) == [revocation(1), lease(2), wish(2)]


def test_a_lease_revoked_before_it_left_never_leaves() -> None:
    outbox = Orders()
    outbox.put(lease(3))
    outbox.put(revocation(3))
    assert drain(outbox) == [revocation(3)]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_whoever_reads_at_whatever_pace_ends_with_the_right_lease(steps: list[tuple[bool, bool]]) -> None:
    """Grants and revocations alternate with growing epochs; the reader keeps fencing as workers do."""
    outbox, held, ended, epoch, live = Orders(), 0, 0, 0, 0
    for change, read in steps:
        if change:
            if live:
                outbox.put(revocation(live))
                live = 0
            else:
                epoch = live = epoch + 1
                outbox.put(lease(live))
        for order in drain(outbox) if read else []:
            match order:
                case Lease(epoch=new) if new > ended:
                    held = new
                case Revocation(epoch=old):
                    ended = max(ended, old)
                    held = 0 if held <= old else held
        if read:
            assert held == live


async def test_orders_come_as_they_are_put_until_the_outbox_is_closed() -> None:
    outbox = Orders()

    async def read() -> list[Order]:
        return [order async for order in outbox.orders()]

    async with asyncio.TaskGroup() as tasks:
        taken = tasks.create_task(read())
        for epoch in range(1, 4):
            outbox.put(lease(epoch))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        outbox.close()
    assert taken.result() == [lease(1), lease(2), lease(3)]


async def test_the_reader_is_told_why_an_outbox_was_closed() -> None:
    outbox = Orders()
    outbox.close(AbortedError("replaced"))
    outbox.close()
    with pytest.raises(AbortedError, match="replaced"):
        await anext(outbox.orders())

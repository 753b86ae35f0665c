"""How long a client tries again."""

import asyncio

import pytest

from tlt_common.client.patience import Patience
from tlt_common.errors import TltError, UnavailableError

pytestmark = pytest.mark.looptime


async def test_a_deadline_during_an_attempt_raises_what_was_waited_for() -> None:
    patience = Patience(None, timeout_s=5)
    awaited = UnavailableError("no worker is available")
    await patience.after(awaited, "r")
    await asyncio.sleep(5)
    with pytest.raises(UnavailableError, match="no worker is available") as raised:
        await patience.after(TltError("Internal error from Core"), "r")
    assert raised.value is awaited


async def test_progress_starts_the_time_anew() -> None:
    patience = Patience(3, timeout_s=None)
    for _ in range(4):
        await patience.after(UnavailableError("lost"), "r")
        await asyncio.sleep(2)
        patience.progressed()
    await patience.after(UnavailableError("lost"), "r")
    await asyncio.sleep(3)
    with pytest.raises(UnavailableError, match="lost"):
        await patience.after(UnavailableError("lost"), "r")


async def test_what_no_repetition_mends_is_raised_at_once() -> None:
    with pytest.raises(TltError, match="wrong"):
        await Patience(None, timeout_s=None).after(TltError("wrong"), "r")

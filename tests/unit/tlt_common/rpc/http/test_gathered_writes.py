"""What is written in one pass of the event loop leaves in one piece, in order, and nothing is lost at the end."""

import asyncio
from typing import Any, cast

from tlt_common.rpc.http.protocol import MAX_GATHERED_BYTES, GatheredWrites


class RecordedTransport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.closed_after = len(self.sent)

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def gathered() -> tuple[Any, RecordedTransport]:
    transport = RecordedTransport()
    return GatheredWrites(cast("Any", transport), asyncio.get_running_loop()), transport


async def test_writes_of_one_pass_leave_together_and_those_of_the_next_by_themselves() -> None:
    writes, transport = gathered()
    writes.write(b"head ")
    writes.write(b"body")
    assert not transport.sent
    await asyncio.sleep(0)
    writes.write(b"next")
    await asyncio.sleep(0)
    assert transport.sent == [b"head body", b"next"]


async def test_what_was_written_before_the_end_is_sent_before_it() -> None:
    writes, transport = gathered()
    writes.write(b"last")
    writes.close()
    await asyncio.sleep(0)
    assert (transport.sent, transport.closed_after) == ([b"last"], 1)


async def test_many_bytes_do_not_wait() -> None:
    writes, transport = gathered()
    writes.write(b"a" * (MAX_GATHERED_BYTES - 1))
    writes.write(b"bc")
    assert [len(part) for part in transport.sent] == [MAX_GATHERED_BYTES + 1]
    await asyncio.sleep(0)
    assert len(transport.sent) == 1


async def test_the_rest_is_the_transports() -> None:
    writes, _ = gathered()
    assert writes.get_extra_info("peername") == "the peername"

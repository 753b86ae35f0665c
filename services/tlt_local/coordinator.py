"""Calls of operators to a coordinator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tlt_common.config.base import TlsSettings
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire


@asynccontextmanager
async def calling(address: str, tls: TlsSettings | None = None) -> AsyncIterator[wire.AsyncStub]:
    """
    Yield a stub of the coordinator at an address.

    Raises:
        UnavailableError: Nothing answers there; the message says what to start.
        TltError: The coordinator refused.
    """
    async with connect(address, to="coordinator", tls=tls) as channel:
        try:
            with translated():
                yield wire.Stub(channel)
        except UnavailableError as error:
            raise UnavailableError(
                f"no coordinator answers at {address}; start a suite with `tlt up --model DIR`, or name the one of a "
                f"running suite with --coordinator HOST:PORT ({error.message})"
            ) from error

"""Pauses of generation."""

from tlt_common.client.gateways import Gateways
from tlt_common.client.retrying import retried
from tlt_common.domain.pause import PauseMode
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

CALL_S = 20.0
"""Deadline: a pause waits for the workers, and for the other gateways."""


async def pause(gateways: Gateways, mode: PauseMode | str) -> None:
    """Pause generation. See `Client.pause`."""
    if mode not in tuple(PauseMode):
        raise InvalidRequestError(f"mode is {mode!r}; accepted: {', '.join(PauseMode)}", field="mode")
    request = wire.pause_to_pb(PauseMode(mode))
    within_s = None if mode == PauseMode.WAIT else CALL_S

    async def call(stub: wire.AsyncStub) -> None:
        with translated():
            await stub.Pause(request, timeout=within_s)

    await retried(gateways, call)


async def proceed(gateways: Gateways) -> None:
    """End a pause. See `Client.proceed`."""

    async def call(stub: wire.AsyncStub) -> None:
        with translated():
            await stub.Proceed(wire.pb.ProceedRequest(), timeout=CALL_S)

    await retried(gateways, call)

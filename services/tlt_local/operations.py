"""Operators' calls to a coordinator."""

from collections.abc import Sequence

import typer

from tlt_common.config.base import TlsSettings
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

ANSWER_S = 10.0


async def set_lending(coordinator: str, tls: TlsSettings | None, *, enabled: bool) -> None:
    """
    Enable or disable lending; print what changed.

    Raises:
        TltError: The coordinator is unreachable, or refuses.
    """
    request = wire.pb.SetLendingRequest(enabled=enabled)
    async with connect(coordinator, to="coordinator", tls=tls) as channel:
        with translated():
            answer = await wire.Stub(channel).SetLending(request, timeout=ANSWER_S)
    typer.echo(f"lending was {_word(enabled=answer.was_enabled)}, and is {_word(enabled=enabled)}")


async def exclude(coordinator: str, tls: TlsSettings | None, workers: Sequence[str], *, excluded: bool) -> None:
    """
    Exclude workers from lending, or include them again; print all excluded workers.

    Raises:
        TltError: The coordinator is unreachable, or does not know a worker.
    """
    request = wire.pb.ExcludeWorkersRequest(worker_ids=workers, excluded=excluded)
    async with connect(coordinator, to="coordinator", tls=tls) as channel:
        with translated():
            answer = await wire.Stub(channel).ExcludeWorkers(request, timeout=ANSWER_S)
    typer.echo(f"excluded: {', '.join(answer.excluded_worker_ids) or 'none'}")


def _word(*, enabled: bool) -> str:
    return "on" if enabled else "off"

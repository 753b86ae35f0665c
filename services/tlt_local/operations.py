"""What `tlt lend` asks of a coordinator."""

from collections.abc import Sequence

import typer

from tlt_common.config.base import TlsSettings
from tlt_common.wire import coordinator as wire
from tlt_local.coordinator import calling

ANSWER_S = 10.0


async def set_lending(coordinator: str, tls: TlsSettings | None, *, enabled: bool) -> None:
    """
    Enable or disable lending; print what changed.

    Raises:
        TltError: The coordinator is unreachable, or refuses.
    """
    request = wire.pb.SetLendingRequest(enabled=enabled)
    async with calling(coordinator, tls) as stub:
        answer = await stub.SetLending(request, timeout=ANSWER_S)
    typer.echo(f"lending was {_word(enabled=answer.was_enabled)}, and is {_word(enabled=enabled)}")


async def exclude(coordinator: str, tls: TlsSettings | None, workers: Sequence[str], *, excluded: bool) -> None:
    """
    Exclude workers from lending, or include them again; print all excluded workers.

    Raises:
        TltError: The coordinator is unreachable, or does not know a worker.
    """
    request = wire.pb.ExcludeWorkersRequest(worker_ids=workers, excluded=excluded)
    async with calling(coordinator, tls) as stub:
        answer = await stub.ExcludeWorkers(request, timeout=ANSWER_S)
    typer.echo(f"excluded: {', '.join(answer.excluded_worker_ids) or 'none'}")


def _word(*, enabled: bool) -> str:
    return "on" if enabled else "off"

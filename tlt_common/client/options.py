"""Connection options of a gateway's clients."""

from os import PathLike
from typing import TypedDict

from tlt_common.client.rollout_log import RolloutLog
from tlt_common.rpc.endpoint import Secret


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of `Client`, which documents them."""

    token: Secret | None
    ca: str | PathLike[str] | None
    tls: bool | None
    server_name: str
    patience_s: float | None
    log: RolloutLog | None

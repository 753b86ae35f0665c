"""Which token a call to the gateway needs."""

from typing import Any

from tlt_common.rpc.access import Access, Open
from tlt_common.rpc.bearer import Bearer
from tlt_common.rpc.tokens import Scope, tokens_in
from tlt_common.wire import rollout as wire
from tlt_gateway.config import GatewayConfig

_SCOPES = {
    "Generate": Scope.GENERATE,
    "GenerateBatch": Scope.GENERATE,
    "GetServerInfo": Scope.GENERATE,
    "UpdateWeights": Scope.UPDATE_WEIGHTS,
}


def scope_of(method: str, request: Any) -> Scope:
    """
    What a call needs; one that is not named here needs everything.

    Whoever knows the id of a request may abort it: ids that the gateway makes cannot be guessed. To abort all of them,
    also those of others, is as much as to change the weights under them.
    """
    if method == "Abort":
        everybodys = isinstance(request, wire.pb.AbortRequest) and request.all
        return Scope.UPDATE_WEIGHTS if everybodys else Scope.GENERATE
    return _SCOPES.get(method, Scope.ADMIN)


def access_of(config: GatewayConfig) -> Access:
    """
    Whom the gateway lets in.

    Raises:
        ConfigError: The file of tokens cannot be used.
    """
    return Bearer(tokens_in(config.tokens), scope_of) if config.tokens else Open()

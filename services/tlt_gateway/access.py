"""Token scopes that calls to the gateway require."""

from typing import Any

from tlt_common.rpc.security.access import Access, Open
from tlt_common.rpc.security.bearer import Bearer
from tlt_common.rpc.security.tokens import Scope, tokens_in
from tlt_gateway.config import GatewayConfig

_SCOPES = {
    "Announce": (Scope.GENERATE,),
    "Abort": (Scope.GENERATE, Scope.UPDATE_WEIGHTS),
    "Generate": (Scope.GENERATE,),
    "GenerateBatch": (Scope.GENERATE,),
    "GetServerInfo": (Scope.GENERATE,),
    "UpdateWeights": (Scope.UPDATE_WEIGHTS,),
    "Pause": (Scope.UPDATE_WEIGHTS,),
    "Proceed": (Scope.UPDATE_WEIGHTS,),
    "ReleaseMemory": (Scope.UPDATE_WEIGHTS,),
    "ResumeMemory": (Scope.UPDATE_WEIGHTS,),
}


def scopes_of(method: str, _request: Any) -> tuple[Scope, ...]:
    """
    Return the scopes that permit a call, any one of which is enough. Methods not listed here require `admin`.

    A caller aborts its own requests, whatever it names: `Gateway.abort` looks at its scopes before it aborts those of
    all callers.
    """
    return _SCOPES.get(method, (Scope.ADMIN,))


def access_of(config: GatewayConfig) -> Access:
    """
    Return the access policy of the gateway: bearer tokens if `tokens` is set, otherwise open.

    Raises:
        ConfigError: The token file is missing or invalid.
    """
    return Bearer(tokens_in(config.tokens), scopes_of) if config.tokens else Open()

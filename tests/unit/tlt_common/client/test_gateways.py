"""When a client calls another gateway."""

import pytest

from tlt_common.client.gateways import Gateways
from tlt_common.errors import (
    AbortedError,
    DrainingError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    RequestFailedError,
    StaleVersionError,
    TltError,
    UnauthenticatedError,
    UnavailableError,
    WeightsError,
)


@pytest.mark.parametrize(
    ("error", "moves"),
    [
        (UnavailableError("down"), True),
        (DrainingError("leaves"), True),
        (OverloadedError("full"), True),
        *(
            (kind("the call's own"), False)
            for kind in (
                AbortedError, InvalidRequestError, NotFoundError, PermissionDeniedError, RequestFailedError,
                StaleVersionError, UnauthenticatedError, WeightsError,
            )
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_a_client_leaves_its_gateway_only_for_an_error_of_the_gateway(error: TltError, moves: bool) -> None:
    gateways = Gateways(["127.0.0.1:1", "127.0.0.1:2"])
    first = gateways.stub
    gateways.failed(first, error)
    assert (gateways.stub is not first) is moves
    await gateways.aclose()

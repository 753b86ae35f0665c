from collections.abc import Iterator

import pytest

QUICK_S = 0.05


@pytest.fixture(autouse=True, scope="module")
def quick_gateways() -> Iterator[None]:
    """Let gateways of this process look for lost workers, and report to the coordinator, without delay."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PROBE_S", "REPORT_S"):
            patch.setattr(f"tlt_gateway.gateway.{name}", QUICK_S)
        yield

"""What we hook, override and call in SGLang takes the arguments we rely on: an upgrade that changes one is noticed."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.signatures import SignaturesResult, signatures

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> SignaturesResult:
    return play(signatures)


def test_all_arguments_fit(result: SignaturesResult) -> None:
    assert result.wrong == []


def test_hooks_methods_and_calls_were_found(result: SignaturesResult) -> None:
    assert result.hooks >= 20
    assert result.overridden >= 10
    assert result.calls >= 20

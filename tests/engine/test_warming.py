"""Nothing that a request uses is compiled after an engine is ready."""

import shutil

import pytest

from tests.engine.host import Play
from tests.engine.scenes import warming
from tests.engine.scenes.warming import WarmingResult

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for a CPU with g++"),
]


@pytest.fixture(scope="module")
def result(play: Play) -> WarmingResult:
    return play(warming.compiled)


def test_requests_compile_nothing_after_the_warm_up(result: WarmingResult) -> None:
    assert result.compiled_before > 0
    assert result.rounds > 100
    assert result.compiled_after == 0


def test_the_drafter_holds_no_embedding_or_head_while_the_kv_cache_is_sized(result: WarmingResult) -> None:
    assert result.drafter_over_plan == pytest.approx(1, abs=0.05), "but norms, which the plan leaves out"

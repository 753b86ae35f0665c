"""What `tlt drafter export` writes is loaded by SGLang without our plug-in, and drafts well there."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.export import Eagle3Result, ExportResult, exported, exported_eagle3

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> ExportResult:
    return play(exported)


@pytest.fixture(scope="module")
def of_eagle3(play: Play) -> Eagle3Result:
    return play(exported_eagle3)


def test_sglang_drafts_the_tokens_of_an_eagle3_drafter(of_eagle3: Eagle3Result) -> None:
    found = of_eagle3.exported
    assert found.drafted.token_ids == found.plain.token_ids
    assert found.rounds == of_eagle3.expected_rounds < 0.75 * len(found.plain.token_ids)


def test_sglang_drafts_with_it(result: ExportResult) -> None:
    assert result.drafted.token_ids == result.plain.token_ids
    assert result.accept_length > 2

"""What `tlt drafter export` writes is loaded by SGLang without our plug-in, and drafts well there."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.export import ExportResult, exported, exported_eagle3

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> ExportResult:
    return play(exported)


@pytest.fixture(scope="module")
def of_eagle3(play: Play) -> ExportResult:
    return play(exported_eagle3)


def test_sglang_drafts_with_an_eagle3_drafter(of_eagle3: ExportResult) -> None:
    assert of_eagle3.drafted.token_ids == of_eagle3.plain.token_ids
    assert of_eagle3.accept_length > 1.5


def test_sglang_drafts_with_it(result: ExportResult) -> None:
    assert result.drafted.token_ids == result.plain.token_ids
    assert result.accept_length > 2

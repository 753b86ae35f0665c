"""What `tlt drafter export` writes is loaded by SGLang without our plug-in, and drafts well there."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.export import ExportResult, exported

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> ExportResult:
    return play(exported)


def test_sglang_drafts_with_it(result: ExportResult) -> None:
    assert result.drafted.token_ids == result.plain.token_ids
    assert result.accept_length > 2

"""Hostile and odd inputs over HTTP and gRPC: each is answered as its case says, and the process lives on."""

from collections.abc import Iterator, Mapping

import pytest

from tests.hostile.attempt import wrong_with
from tests.hostile.case import At, Call, Case
from tests.hostile.inputs import inputs
from tests.hostile.log import Log
from tests.hostile.targets import Target, targets

INPUTS = inputs()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[At, Target]]:
    with targets(tmp_path_factory.mktemp("hostile")) as found:
        yield found


@pytest.mark.parametrize("case", INPUTS, ids=lambda case: f"{case.at} {case.name}")
def test_an_input_is_answered_as_it_should_be(running: Mapping[At, Target], case: Case | Call | Log) -> None:
    assert not wrong_with(running.get(case.at), case)


def test_there_are_at_least_400_inputs_and_none_twice() -> None:
    assert len(INPUTS) >= 400
    names = [f"{case.at} {case.name}" for case in INPUTS]
    assert len(set(names)) == len(names)

"""Starts that fail, from the command line, with real services, Ray Serve and engines: the terminal names the cause."""

import re
import shutil

import pytest

from tlt_bench.starts.cases import CASES, Case
from tlt_bench.starts.measure import LIMIT_S, failure_of

pytestmark = [pytest.mark.stack, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_is_named(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    failure = failure_of(case)
    with capsys.disabled():
        print(f"\n{case.name}: named after {failure.cause_s:.1f} s, ended after {failure.exit_s:.1f} s")
    assert case.says in failure.line
    assert failure.code == 2
    if found := re.search(r"; logs: (\S+)$", failure.line):
        shutil.rmtree(found[1])  # it exists
    assert bool(found) == bool(case.sitecustomize)

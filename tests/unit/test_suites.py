"""Long suites: what is recorded of them, and that the Makefile and CI know the same ones."""

import re

from tests.suites import ROOT, SUITES, PassedSuite, listed, parsed, written

PASSED = {
    "page": PassedSuite("page", "0123456789", "2026-02-01"),
    "stack": PassedSuite("stack", "fedcba9876+", "2026-01-31"),
}


def test_what_is_written_is_read() -> None:
    assert parsed(written(PASSED)) == PASSED
    assert parsed("") == {}


def test_suites_are_listed_from_the_one_that_has_not_passed_for_longest() -> None:
    lines = listed(PASSED).splitlines()
    assert len(lines) == len(SUITES)
    assert all(line.endswith("never") for line in lines[:-2])
    assert [line.split() for line in lines[-2:]] == [
        ["stack", "2026-01-31", "fedcba9876+"],
        ["page", "2026-02-01", "0123456789"],
    ]


def test_each_suite_is_a_target_that_records_it() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recorded = re.findall(r"\$\(call passed,([\w-]+)\)", makefile)
    assert sorted(recorded) == sorted(SUITES)
    for suite in SUITES:
        recipe = re.search(rf"^{suite}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert recipe is not None, suite
        assert recipe[1].rstrip().endswith(f"$(call passed,{suite})"), suite


def test_ci_rotates_suites_that_exist() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    rotated = re.search(r"^SUITES=\(([^)]*)\)", script, re.MULTILINE)
    assert rotated is not None
    names = rotated[1].split()
    assert set(names) <= set(SUITES)
    for name in names:
        assert re.search(rf"^    {name}\) ", script, re.MULTILINE), name

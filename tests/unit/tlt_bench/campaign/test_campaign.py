"""The campaign around its parts: shares of time, combined figures, the verdict and what is kept."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_bench.campaign.campaign import Report, run
from tlt_bench.campaign.command import run as command
from tlt_bench.campaign.figures import SHARED, combined
from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.parts import PARTS, share_s
from tlt_common.errors import ConfigError, UnavailableError

Body = Callable[[Context], Awaitable[Outcome]]


def part(name: str, body: Body, *, weight: float = 1.0) -> Part:
    return Part(name=name, summary="does it", weight=weight, run=body)


def returning(**figures: float) -> Body:
    async def body(context: Context) -> Outcome:
        (context.directory / "log").write_text("something")
        return Outcome(figures=figures)

    return body


async def played(*parts: Part, keep: Path | None = None) -> Report:
    return await run(parts, size=Size.SHORT, seed=3, keep=keep, say=lambda _: None)


async def test_counts_are_summed_durations_are_the_longest_and_own_figures_keep_their_part() -> None:
    report = await played(
        part("one", returning(kills=2, lost=0, stall_detect_s=3, speed=1)),
        part("two", returning(kills=3, stall_detect_s=11, speed=2)),
    )
    assert report.figures == {"kills": 5, "lost": 0, "stall_detect_s": 11, "one.speed": 1, "two.speed": 2}
    assert report.is_passed


@pytest.mark.parametrize("name", [name for name, figure in SHARED.items() if figure.must_hold])
async def test_one_violation_fails_the_campaign(name: str, tmp_path: Path) -> None:
    report = await played(part("one", returning(**{name: 1})), keep=tmp_path)
    assert report.violations == (name,)
    assert not report.is_passed


async def test_slowness_and_little_work_are_reported_but_do_not_fail() -> None:
    assert (await played(part("one", returning(kills=1, stall_detect_s=1000)))).is_passed


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_part_that_cannot_run_fails_the_campaign_and_the_next_still_runs(
    tmp_path: Path, *, grouped: bool
) -> None:
    async def body(_: Context) -> Outcome:
        error = UnavailableError("no engine started")
        raise ExceptionGroup("of a task group", [error]) if grouped else error

    report = await played(part("one", body), part("two", returning(kills=1)), keep=tmp_path)
    assert not report.is_passed
    assert report.errors == {"one": "no engine started"}
    assert report.figures == {"kills": 1}
    assert report.result().notes["one.error"] == "no engine started"


async def test_files_of_a_passed_campaign_are_deleted_and_those_of_a_failed_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directories: list[Path] = []

    def noting(**figures: float) -> Body:
        async def body(context: Context) -> Outcome:
            directories.append(context.directory)
            return await returning(**figures)(context)

        return body

    await played(part("one", noting(lost=0)))
    await played(part("one", noting(lost=1)))
    assert [directory.exists() for directory in directories] == [False, True]


async def test_a_part_has_until_its_share_of_the_time_and_its_own_directory(tmp_path: Path) -> None:
    contexts: list[Context] = []

    async def body(context: Context) -> Outcome:
        contexts.append(context)
        return Outcome()

    await played(part("one", body, weight=3), part("two", body), keep=tmp_path)
    # The first one ended at once, so that the second one has everything.
    now_s = time.monotonic()
    assert contexts[0].deadline_s <= now_s + 0.75 * Size.SHORT.seconds
    assert contexts[1].deadline_s > contexts[0].deadline_s
    assert [context.directory.name for context in contexts] == ["one", "two"]


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=6), st.floats(-10, 4000))
def test_shares_never_exceed_the_time_that_is_left(weights: list[float], left_s: float) -> None:
    parts = [part(str(number), returning(), weight=weight) for number, weight in enumerate(weights)]
    used_s = 0.0
    for place, one in enumerate(parts):
        used_s += share_s(one, parts[place + 1 :], left_s - used_s)
    assert used_s == pytest.approx(max(0.0, left_s))


@given(st.dictionaries(st.text(max_size=3), st.dictionaries(st.sampled_from([*SHARED, "own"]), st.integers(0, 9))))
def test_no_violation_disappears_when_parts_are_combined(by_part: dict[str, dict[str, float]]) -> None:
    together = combined(by_part)
    for name, figure in SHARED.items():
        if figure.must_hold:
            assert (together.get(name, 0) > 0) == any(one.get(name, 0) > 0 for one in by_part.values())


def test_parts_are_named_as_their_packages_and_the_command_names_those_it_accepts() -> None:
    assert all(one.run.__module__.startswith(f"tlt_bench.campaign.{one.name}") for one in PARTS)
    with pytest.raises(ConfigError, match="--part: unknown part 'nothing'"):
        command(json="-", size="short", parts=["nothing"], seed=0, keep=None)
    with pytest.raises(ConfigError, match="--size is 'huge'"):
        command(json="-", size="huge", parts=None, seed=0, keep=None)

"""Who decides a round's arm, and what is recorded."""

from functools import partial

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.arm import DEFAULT_ARMS, OFF, Arm, ArmWindow, chain, ngram
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.scheduler.arms.switching import ArmSwitching

WITH_RETRIEVAL = (*DEFAULT_ARMS, ngram(4))


class Clock:
    """A clock that goes when told to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def make(
    reports: list[RoundReport], *, version: int = 1, arms: tuple[Arm, ...] = DEFAULT_ARMS
) -> tuple[ArmSwitching, Clock]:
    clock = Clock()
    bandit = Bandit(arms, BanditConfig(), seed=0)
    made = ArmSwitching(
        bandit=bandit,
        report=reports.append,
        clock=clock,
        drafter_version=DrafterVersion(version),
        has_drafter=version > 0,
    )
    return made, clock


def all_of(arm: Arm) -> int:
    return 4 * arm.steps


def none_of(arm: Arm) -> int:
    return 0 * arm.steps


def test_without_a_drafter_speculation_is_off_even_if_forced() -> None:
    switch, _ = make([], version=0)
    switch.forced = [chain(7)]
    assert switch.launch(1, blocked=False).arm == OFF
    switch.drafter_loaded(DrafterVersion(1))
    assert switch.launch(1, blocked=False).arm == chain(7)


def test_the_head_of_a_checkpoint_is_a_drafter_before_any_was_published() -> None:
    switch, _ = make([], version=0)
    switch.drafter_loaded(DrafterVersion(0))
    assert switch.allowed(1) == DEFAULT_ARMS


def test_retrieval_needs_no_drafter() -> None:
    switch, _ = make([], version=0, arms=WITH_RETRIEVAL)
    assert switch.allowed(1) == (OFF, ngram(4))
    assert {switch.launch(1, blocked=False).arm for _ in range(4)} <= {OFF, ngram(4)}
    switch.forced = [ngram(4)]
    assert switch.launch(1, blocked=False).arm == ngram(4)
    switch.drafter_loaded(DrafterVersion(1))
    assert switch.allowed(1) == (*DEFAULT_ARMS, ngram(4))


def test_an_arm_that_does_not_fit_is_not_run_even_if_forced() -> None:
    switch, _ = make([], arms=WITH_RETRIEVAL)
    switch.fits = lambda arm, batch: arm.draft_tokens * batch <= 16
    assert switch.allowed(2) == (OFF, chain(3), chain(7), ngram(4))
    assert switch.allowed(4) == (OFF, chain(3))
    assert {switch.launch(20, blocked=False).arm for _ in range(40)} == {OFF}
    switch.forced = [chain(3), chain(7)]
    assert [switch.launch(4, blocked=False).arm for _ in range(4)] == [chain(3), OFF] * 2


def test_drafted_tokens_and_switches_are_reported_once() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports, arms=WITH_RETRIEVAL)
    for arm in (chain(3), chain(3), ngram(4), OFF):
        switch.forced = [arm]
        choice = switch.launch(2, blocked=False, find=lambda arm: arm.steps + 1)
        clock.now_s += 0.01
        switch.complete(choice, [0, 0])
    switch.flush()
    drafted_by = {
        name: sum(window.drafted_tokens for report in reports for window in report.arms if window.arm == name)
        for name in ("off", "chain-3", "ngram-4")
    }
    assert drafted_by == {"off": 0, "chain-3": 2 * 2 * 3, "ngram-4": 5}
    assert sum(report.switches for report in reports) == 3
    choice = switch.launch(2, blocked=False)
    clock.now_s += 1.0
    switch.complete(choice, [0, 0])
    assert reports[-1].switches == 0


def test_where_little_is_found_another_arm_runs_and_has_the_reward() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports, version=0, arms=WITH_RETRIEVAL)
    for _ in range(100):
        choice = switch.launch(2, blocked=False, find=lambda arm: arm.steps // 4)
        assert choice.arm == OFF
        clock.now_s += 0.01
        switch.complete(choice, [0, 0])
    assert {window.arm for report in reports for window in report.arms} == {"off"}
    switch.forced = [ngram(4)]
    assert switch.launch(2, blocked=False, find=lambda arm: arm.steps // 4).arm == OFF
    assert switch.launch(2, blocked=False, find=lambda arm: arm.steps // 2).arm == ngram(4)
    switch.drafter_loaded(DrafterVersion(1))
    switch.forced = ()
    assert {switch.launch(2, blocked=False, find=lambda _: 0).arm for _ in range(100)} <= {*DEFAULT_ARMS}


def found_in(turn: int, arm: Arm) -> int:
    return arm.steps * 4 * (turn % 2)


def test_retrieval_runs_where_the_learned_drafter_is_worse_and_only_there() -> None:
    for kept, wanted in ((0, ngram(4)), (4, chain(3))):
        switch, clock = make([], arms=WITH_RETRIEVAL)
        chosen = []
        for turn in range(1000):
            choice = switch.launch(1, blocked=False, find=partial(found_in, turn))
            arm = choice.arm
            accepted = {"off": 0, "ngram-4": 3}.get(arm.name, min(kept, arm.steps))
            clock.now_s += 0.010 if arm == OFF else 0.013
            switch.complete(choice, [accepted])
            chosen.append(arm)
        late = chosen[500:]
        share = sum(arm == wanted or (arm.needs_drafter and wanted.needs_drafter) for arm in late) / len(late)
        assert share > (0.85 if wanted.needs_drafter else 0.4)  # what is found in half of the rounds runs in no more


def test_a_blocked_request_turns_it_off_for_its_rounds() -> None:
    switch, _ = make([])
    switch.forced = [chain(3)]
    assert switch.launch(4, blocked=True).arm == OFF
    assert switch.launch(4, blocked=False).arm == chain(3)


def test_a_round_lasts_from_its_launch_or_the_last_completion() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    switch.forced = [chain(3)]
    first = switch.launch(2, blocked=False)
    clock.now_s += 1.0
    second = switch.launch(2, blocked=False)  # overlapped: launched before the first completes
    clock.now_s += 1.0
    switch.complete(first, [3, 1])
    clock.now_s += 0.5
    switch.complete(second, [0, 0])
    windows = [window for report in reports for window in report.arms]
    assert [window.elapsed_s for window in windows] == [2.0, 0.5]
    assert sum(window.accepted_tokens for window in windows) == 4


def test_a_round_is_not_charged_with_prompts_that_ran_before_it() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    switch.forced = [chain(3)]
    choice = switch.launch(2, blocked=False)  # overlapped: launched while the prompts run
    clock.now_s += 5.0
    switch.round_ended()
    clock.now_s += 0.25
    switch.complete(choice, [3, 1])
    switch.flush()
    assert [window.elapsed_s for report in reports for window in report.arms] == [0.25]


def test_what_prompts_and_cached_tokens_cost_is_reported_once() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    switch.forced = [chain(3)]
    launched_s = clock()
    choice = switch.launch(2, blocked=False, kv_tokens=700)  # overlapped: launched while the prompts run
    clock.now_s += 0.3
    switch.prefilled(1000, launched_s)
    clock.now_s += 0.2
    switch.complete(choice, [3, 1])
    following = switch.launch(2, blocked=False, kv_tokens=706)
    clock.now_s += 0.2
    switch.complete(following, [0, 0])
    switch.flush()
    assert (reports[0].prefilled_tokens, round(reports[0].prefill_s, 6)) == (1000, 0.3)
    assert sum(report.prefilled_tokens for report in reports) == 1000
    assert sum(window.kv_tokens for report in reports for window in report.arms) == 1406
    switch.warms = True
    switch.prefilled(5000, clock())
    assert switch.prefilled_tokens == 0


def test_a_round_of_another_drafter_says_nothing_of_this_one() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    switch.forced = [chain(3), OFF]
    rounds = [switch.launch(1, blocked=False) for _ in range(2)]
    switch.drafter_loaded(DrafterVersion(2))
    for choice in rounds:
        clock.now_s += 0.1
        switch.complete(choice, [0])
    switch.flush()
    assert {window.arm for report in reports for window in report.arms} == {"off"}


def test_reports_come_together() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    for _ in range(100):
        choice = switch.launch(1, blocked=False)
        clock.now_s += 0.01
        switch.complete(choice, [1])
    assert 1 <= len(reports) <= 4
    switch.flush()
    assert sum(window.rounds for report in reports for window in report.arms) == 100


def test_another_drafter_begins_anew() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    choice = switch.launch(1, blocked=False)
    clock.now_s += 0.1
    switch.complete(choice, [0])
    switch.drafter_loaded(DrafterVersion(5))
    switch.policy_loaded()
    assert [report.drafter_version for report in reports] == [1]


def pooled(arm: str, reward: float) -> ArmWindow:
    return ArmWindow(
        arm=arm, group=1, rounds=50, accepted_tokens=50, produced_tokens=100, elapsed_s=1.0, median_reward=reward
    )


def test_what_the_fleet_learned_of_another_drafter_is_taken_for_arms_that_do_not_use_it_only() -> None:
    arms = tuple(pooled(name, reward) for name, reward in (("off", 1e9), ("chain-3", 1.0), ("chain-7", 1.0)))
    switch, _ = make([])
    switch.merge(Posterior(drafter_version=DrafterVersion(2), arms=arms))
    assert {switch.launch(1, blocked=False).arm for _ in range(40)} == {chain(3)}  # to be tried, and nothing completes
    switch, _ = make([])
    switch.merge(Posterior(drafter_version=DrafterVersion(1), arms=arms))
    assert [switch.launch(1, blocked=False).arm for _ in range(40)].count(OFF) > 20
    switch, _ = make([], version=0, arms=WITH_RETRIEVAL)
    retrieval = pooled("ngram-4", 1e10)
    switch.merge(Posterior(drafter_version=DrafterVersion(2), arms=(*arms, retrieval)))
    assert [switch.launch(1, blocked=False).arm for _ in range(40)].count(ngram(4)) > 20


def test_work_that_switching_caused_is_reported_once() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports)
    switch.recomputed_tokens, switch.caught_up_tokens = 3, 50
    for _ in range(2):
        choice = switch.launch(1, blocked=False)
        clock.now_s += 0.1
        switch.complete(choice, [1])
        switch.flush()
    assert [(report.recomputed_tokens, report.caught_up_tokens) for report in reports] == [(3, 50), (0, 0)]


def test_a_warm_up_runs_every_arm_and_records_nothing() -> None:
    reports: list[RoundReport] = []
    switch, clock = make(reports, version=0, arms=WITH_RETRIEVAL)
    switch.warms = True
    for arm in (chain(7), ngram(4)):
        switch.forced = [arm]
        choice = switch.launch(2, blocked=False, find=none_of)
        assert choice.arm == arm
        clock.now_s += 20.0  # it compiled
        switch.complete(choice, [0, 0])
    switch.warms = False
    switch.flush()
    assert not reports
    assert switch.allowed(1) == (OFF, ngram(4)), "no drafter has been loaded"


def test_the_drafter_pays_until_it_is_known_not_to_and_always_if_its_arms_are_forced() -> None:
    switch, _ = make([])
    assert switch.drafter_pays(8)
    for arm, elapsed_s in ((OFF, 1.0), (chain(3), 2.0), (chain(7), 3.0)):
        for _ in range(3):
            switch.bandit.record(arm, 8, [0] * 8, elapsed_s)
    assert not switch.drafter_pays(8)
    switch.forced = [chain(7)]
    assert switch.drafter_pays(8)

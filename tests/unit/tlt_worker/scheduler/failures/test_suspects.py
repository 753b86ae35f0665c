"""The cause of a failed batch is found, and nobody else ends for it."""

from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.failures.suspects import MAX_FAILURES, PROVEN_ROUNDS, Suspects

NAMES = [f"r{i}" for i in range(8)]


def rounds_until_settled(suspects: Suspects, guilty: set[str], length: int) -> tuple[set[str], set[str]]:
    """Run all requests for `length` rounds each; a batch with a guilty one fails. Return who ended and who finished."""
    waiting, running, ended, finished = list(NAMES), dict[str, int](), set[str](), set[str]()
    for _ in range(1000):
        held = suspects.held_back(waiting, running)
        running |= dict.fromkeys((name for name in waiting if name not in held), 0)
        waiting = [name for name in waiting if name in held]
        if not running:
            break
        if guilty & set(running):
            out = suspects.blame(list(running))
            waiting += [name for name in running if name not in out]
            ended |= out
            running = {}
            continue
        suspects.passed(running)
        running = {name: done + 1 for name, done in running.items()}
        for name in [name for name, done in running.items() if done == length]:
            del running[name]
            finished.add(name)
            suspects.forget(name)
    return ended, finished


@given(st.sets(st.sampled_from(NAMES)), st.integers(1, 2 * PROVEN_ROUNDS))
def test_the_guilty_end_and_all_others_finish(guilty: set[str], length: int) -> None:
    ended, finished = rounds_until_settled(Suspects(), guilty, length)
    assert ended == guilty
    assert finished == set(NAMES) - guilty


def test_a_failure_without_a_cause_does_not_repeat_for_ever() -> None:
    suspects = Suspects()
    for _ in range(MAX_FAILURES - 1):
        assert suspects.blame(NAMES) == set()
    assert suspects.blame(NAMES) == set(NAMES)
    assert not suspects.held_back(NAMES, ())


def test_suspects_run_one_at_a_time_until_they_have_proven_themselves() -> None:
    suspects = Suspects()
    suspects.blame(["a", "b"])
    assert suspects.held_back(["a", "b", "c"], ()) == {"b"}
    assert suspects.held_back(["b", "c"], ["a", "c"]) == {"b"}
    for _ in range(PROVEN_ROUNDS):
        suspects.passed(["a", "c"])
    assert suspects.held_back(["b", "c"], ["a"]) == set()

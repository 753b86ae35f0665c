"""The longest stall of the event loop."""

from tlt_common.rpc.probes.loop_stall import WINDOW_S, Longest


def test_a_stall_is_shown_for_at_least_one_window_and_forgotten_after_two() -> None:
    longest = Longest()
    assert longest.add(0.3, 1.0) == 0.3
    assert longest.add(0.1, 2.0) == 0.3
    assert longest.add(0.1, 1.0 + WINDOW_S) == 0.3
    assert longest.add(0.1, 2.0 + 2 * WINDOW_S) == 0.1


def test_a_stall_that_is_older_than_a_window_without_measurements_is_forgotten() -> None:
    longest = Longest()
    longest.add(0.3, 1.0)
    assert longest.add(0.1, 1.0 + 3 * WINDOW_S) == 0.1

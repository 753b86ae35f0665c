import math

from tlt_coordinator.queues import Queues


def test_the_last_reports_of_all_gateways_add_up_until_they_fall_silent() -> None:
    queues = Queues(stale_s=5.0)
    assert queues.queued(0.0) == 0
    queues.report("a", 3, now_s=0.0)
    queues.report("b", 4, now_s=0.0)
    assert queues.queued(0.0) == 7
    queues.report("b", 0, now_s=1.0)
    assert queues.queued(4.9) == 3
    assert queues.queued(5.0) == 0


def test_a_pause_is_shown_while_a_gateway_reports_it() -> None:
    queues = Queues(stale_s=5.0)
    queues.report("a", 0, 100.0, pause_left_s=60.0)
    queues.report("b", 0, 100.0)
    assert queues.pause_left_s(101.0) == 59.0
    queues.report("a", 0, 102.0)
    assert queues.pause_left_s(102.0) == 0.0
    queues.report("a", 0, 103.0, pause_left_s=math.inf)
    assert queues.pause_left_s(104.0) == math.inf
    assert queues.pause_left_s(120.0) == 0.0

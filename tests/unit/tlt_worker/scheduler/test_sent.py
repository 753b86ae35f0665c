"""What a round's requests have in common with the last round's is sent to the device once."""

import torch

from tlt_worker.scheduler.sent import sent, sent_once


def test_the_same_values_are_sent_once() -> None:
    first = sent_once((3, 5), "cpu", torch.int64)
    assert first is sent_once((3, 5), "cpu", torch.int64)
    assert first.tolist() == [3, 5]
    assert sent_once((5, 3), "cpu", torch.int64).tolist() == [5, 3]


def test_values_of_other_types_are_not_the_same() -> None:
    assert sent_once((1, 0), "cpu", torch.int64).dtype == torch.int64
    assert sent_once((True, False), "cpu", torch.bool).dtype == torch.bool


def test_what_may_be_modified_is_sent_each_time() -> None:
    assert sent([3, 5], "cpu") is not sent([3, 5], "cpu")

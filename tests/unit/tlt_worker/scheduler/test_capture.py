"""States become frames: in order, none twice, none lost, each with its tokens."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tlt_common.codec import decode
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_trainer.data.frame import decoded
from tlt_trainer.data.pack import collate
from tlt_worker.scheduler.capture import HiddenStateCapture
from tlt_worker.scheduler.captured_rows import CapturedRows, is_sampled

SIZE = 4
TOKENS = list(range(100, 400))
STATES = torch.arange(400 * SIZE, dtype=torch.float32).view(400, SIZE)


def stretch(position: int, count: int, name: str = "r") -> CapturedRows:
    ids = TOKENS[position : position + count + 1]
    return CapturedRows(
        request_id=RequestId(name), prompt=TOKENS, prompt_tokens=10, position=position, first_row=0, token_ids=ids
    )


def adding(capture: HiddenStateCapture, rows: CapturedRows, version: int = 1) -> None:
    capture.add(STATES[rows.position :], [rows], PolicyVersion(version))


def states_of(frame: EncodedFrame) -> Tensor:
    return torch.frombuffer(bytearray(decode(frame.header, frame.blob).hidden), dtype=torch.float32).view(-1, SIZE)


@given(steps=st.lists(st.integers(1, 9), min_size=1, max_size=20), frame_tokens=st.integers(1, 12))
def test_frames_hold_every_state_once_with_its_tokens(steps: list[int], frame_tokens: int) -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy(frame_tokens=frame_tokens))
    position = 0
    for count in steps:
        adding(capture, stretch(position, count))
        position += count
    capture.finish(RequestId("r"), 77)
    covered = [frame.header.start + offset for frame in frames for offset in range(frame.header.token_count)]
    assert covered == list(range(position))
    for frame in frames:
        assert (
            list(decode(frame.header, frame.blob).token_ids)
            == TOKENS[frame.header.start : frame.header.start + frame.header.token_count + 1]
        )
        assert torch.equal(states_of(frame), STATES[frame.header.start : frame.header.start + frame.header.token_count])
        assert frame.header.token_count <= frame_tokens


def test_frames_carry_the_hash_of_the_prompt_without_the_response_it_continues() -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy(frame_tokens=8))
    adding(capture, stretch(0, 12, "a"))
    adding(capture, stretch(12, 5, "a"), version=2)
    adding(capture, replace(stretch(0, 3, "b"), prompt_tokens=11))
    for name in ("a", "b"):
        capture.finish(RequestId(name), 1)
    assert [frame.header.prompt_hash for frame in frames] == [*[prompt_hash(TOKENS[:10])] * 3, prompt_hash(TOKENS[:11])]


def test_frames_name_the_layers_of_their_states() -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy(), layers=(1, 3, 5))
    adding(capture, stretch(0, 3))
    capture.finish(RequestId("r"), 3)
    assert [(frame.header.layers, frame.header.hidden_size) for frame in frames] == [((1, 3, 5), SIZE)]


def test_nothing_is_learned_across_positions_without_states() -> None:
    """Of tokens found in the prefix cache there are no states: a frame begins behind them, and so does its window."""
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy(frame_tokens=64))
    adding(capture, stretch(4, 10))  # positions 0 to 3 were cached
    adding(capture, stretch(30, 12))  # so were 14 to 29, for a request that ran again
    capture.finish(RequestId("r"), 32)
    assert [(frame.header.start, frame.header.token_count) for frame in frames] == [(4, 10), (30, 12)]
    pack = collate([decoded(frame) for frame in frames], torch.device("cpu"))
    assert pack.layout.lengths == (10, 12)
    assert pack.positions.tolist() == [*range(4, 14), *range(30, 42)]
    assert pack.layout.offsets.tolist() == [*range(10), *range(12)]  # pass u begins anew behind a gap
    # Entry t predicts the token at t + 2, which is generated from position 10 on; the last of a window has no target.
    assert (pack.positions[pack.scored] + 2).tolist() == [*range(10, 15), *range(32, 43)]
    assert pack.next_ids.tolist() == [TOKENS[position + 1] for position in pack.positions.tolist()]


def test_what_was_taken_before_is_left_out() -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy())
    adding(capture, stretch(0, 20))
    adding(capture, stretch(0, 25))  # the cache was dropped and the request ran through its tokens again
    capture.finish(RequestId("r"), 16)
    assert [(frame.header.start, frame.header.token_count, frame.header.finished) for frame in frames] == [
        (0, 25, True)
    ]


def test_another_version_begins_another_frame() -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy())
    adding(capture, stretch(0, 12))
    adding(capture, stretch(12, 3), version=2)
    capture.finish(RequestId("r"), 6)
    assert [(frame.header.start, frame.header.token_count, frame.header.policy_version) for frame in frames] == [
        (0, 12, 1),
        (12, 3, 2),
    ]


def test_rows_are_found_among_those_of_other_requests() -> None:
    frames: list[EncodedFrame] = []
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy())
    capture.add(
        STATES, [replace(stretch(0, 2, "a"), first_row=3), replace(stretch(0, 1, "b"), first_row=8)], PolicyVersion(0)
    )
    capture.finish(RequestId("a"), 1)
    capture.finish(RequestId("b"), 1)
    assert torch.equal(states_of(frames[0]), STATES[3:5])
    assert torch.equal(states_of(frames[1]), STATES[8:9])


def test_sampling_is_by_request_and_close_to_its_ratio() -> None:
    policy = CapturePolicy(sample_ratio=0.3)
    kept = [is_sampled(f"request/{i}", policy) for i in range(2000)]
    assert 0.25 < sum(kept) / len(kept) < 0.35
    assert kept == [is_sampled(f"request/{i}", policy) for i in range(2000)]
    assert not is_sampled("r", CapturePolicy(enabled=False))
    assert is_sampled("r", CapturePolicy(sample_ratio=1.0))
    assert not is_sampled("r", CapturePolicy(sample_ratio=0.0))

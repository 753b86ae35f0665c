"""States of 8 bits: what an engine encodes is what a trainer decodes, within the precision of the type."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tlt_common.codec import encode, read
from tlt_common.domain.hidden import SCALE_BYTES, SCALED, CapturePolicy, EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError
from tlt_trainer.data.frame import TrainingFrame, decoded
from tlt_trainer.data.pack import collate
from tlt_trainer.data.scaled_states import are_finite, unscaled
from tlt_worker.scheduler.capture import HiddenStateCapture
from tlt_worker.scheduler.captured_rows import CapturedRows
from tlt_worker.scheduler.launched_round import LaunchedRound, scaled_rows
from tlt_worker.scheduler.outputs import Outputs

CPU = torch.device("cpu")
PRECISION = 2**-4 + 2**-7
"""Half the distance of two numbers with 4 significant bits, and the rounding of bfloat16."""
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def states(rows: int, size: int, seed: int, spread: float = 1.0, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(rows, size, generator=generator)
    return (made * torch.randn(size, generator=generator).mul(spread).exp()).clamp(-1e4, 1e4).to(dtype)


def frame_of(rows_NB: Tensor) -> EncodedFrame:
    count, size = rows_NB.shape
    header = FrameHeader(
        request_id=RequestId("r"), policy_version=PolicyVersion(0), prompt_hash=7, start=0, token_count=count,
        hidden_size=size - SCALE_BYTES, dtype=SCALED, prompt_tokens=1, response_tokens=count, finished=True,
    )  # fmt: skip
    return encode(header, range(count + 1), [rows_NB.numpy().tobytes()])


@given(
    rows=st.integers(1, 9), size=st.integers(1, 70), seed=st.integers(0, 99), spread=st.floats(0, 3),
    dtype=st.sampled_from(DTYPES),
)  # fmt: skip
def test_elements_keep_their_precision_and_small_ones_their_place(
    rows: int, size: int, seed: int, spread: float, dtype: torch.dtype
) -> None:
    before = states(rows, size, seed, spread, dtype)
    after = unscaled(scaled_rows(before.clone())).float()
    largest = before.float().abs().amax(-1, keepdim=True)
    # Below 2 ** -6 of the largest number the type has fewer bits: an absolute precision of 2 ** -10, over 448.
    allowed = torch.maximum(before.float().abs() * PRECISION, largest * 2**-9 / 448 + 1e-4 * (dtype == torch.float16))
    assert bool(((after - before.float()).abs() <= allowed).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_states_of_zeros_stay_zeros(dtype: torch.dtype) -> None:
    assert torch.equal(unscaled(scaled_rows(torch.zeros(3, 8, dtype=dtype))), torch.zeros(3, 8, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_states_that_are_not_finite_are_refused_by_the_trainer(value: float, dtype: torch.dtype) -> None:
    wrong = states(4, 8, 0, dtype=dtype)
    wrong[2, 5] = value
    with pytest.raises(InvalidRequestError, match="not finite") as caught:
        decoded(read(frame_of(scaled_rows(wrong)).blob))
    assert caught.value.field == "frame.hidden"


@given(scale=st.binary(min_size=4, max_size=4))
def test_any_scale_is_decoded_to_finite_states_or_refused(scale: bytes) -> None:
    rows = scaled_rows(states(2, 8, 0))
    rows[1, 8:] = torch.frombuffer(bytearray(scale), dtype=torch.uint8)
    if are_finite(rows):
        assert bool(torch.isfinite(unscaled(rows)).all())
        assert torch.equal(decoded(frame_of(rows)).hidden, rows)
    else:
        with pytest.raises(InvalidRequestError, match="not finite"):
            decoded(frame_of(rows))


def test_a_pack_may_hold_both_encodings() -> None:
    plain = states(6, 16, 1)
    scaled = decoded(frame_of(scaled_rows(states(4, 16, 2))))
    header = FrameHeader(
        request_id=RequestId("p"), policy_version=PolicyVersion(0), prompt_hash=8, start=0, token_count=6,
        hidden_size=16, dtype="BF16", prompt_tokens=1, response_tokens=6, finished=True,
    )  # fmt: skip
    pack = collate([TrainingFrame(header=header, token_ids=torch.arange(7), hidden=plain), scaled], CPU)
    assert torch.equal(pack.hidden, torch.cat([unscaled(scaled.hidden), plain]))


def test_a_round_is_scaled_at_its_launch_and_left_as_it_is() -> None:
    custom = {"tlt_capture": True}
    reqs = [
        SimpleNamespace(rid=name, origin_input_ids=[1] * 5, sampling_params=SimpleNamespace(custom_params=custom))
        for name in "ab"
    ]
    buffer = states(8, 16, 4)
    before = buffer.clone()
    made = LaunchedRound(choice=None, version=PolicyVersion(1))
    made.take(
        Outputs(read=buffer),
        SimpleNamespace(reqs=reqs, prefix_lens=[0, 0], extend_lens=[3, 5]),
        CapturePolicy(enabled=True, state_bits=8),
    )
    assert torch.equal(buffer, before)
    assert made.states is not None
    assert torch.equal(made.states, scaled_rows(before))


def test_a_changed_capture_policy_begins_another_frame() -> None:
    frames, whole = list[EncodedFrame](), states(8, 16, 3)
    capture = HiddenStateCapture(send=frames.append, policy=CapturePolicy())

    def rows(position: int) -> CapturedRows:
        ids = list(range(position, position + 5))
        return CapturedRows(
            request_id=RequestId("r"), prompt=ids, prompt_tokens=1, position=position, first_row=0, token_ids=ids
        )

    capture.add(whole[:4], [rows(0)], PolicyVersion(1))
    capture.add(scaled_rows(whole[4:].clone()), [rows(4)], PolicyVersion(1))
    capture.finish(RequestId("r"), 7)
    assert [(frame.header.dtype, frame.header.hidden_size, frame.header.token_count) for frame in frames] == [
        ("BF16", 16, 4),
        (SCALED, 16, 4),
    ]
    assert torch.equal(decoded(frames[0]).hidden, whole[:4])
    assert torch.allclose(unscaled(decoded(frames[1]).hidden).float(), whole[4:].float(), rtol=PRECISION, atol=1e-3)

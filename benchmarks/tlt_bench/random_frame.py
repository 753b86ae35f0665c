"""A frame of random states, for timing."""

import torch

from tlt_common.domain.hidden import FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.frame import TrainingFrame


def random_frame(form: DrafterFormat, tokens: int, *, number: int = 0) -> TrainingFrame:
    """Return a response of so many states, to a prompt of one token, for drafters of this format."""
    header = FrameHeader(
        request_id=RequestId(f"{number}/0"),
        policy_version=PolicyVersion(0),
        prompt_hash=number,
        start=0,
        token_count=tokens,
        hidden_size=form.hidden_size,
        dtype="BF16",
        prompt_tokens=1,
        response_tokens=tokens - 1,
        finished=True,
    )
    ids = torch.randint(0, form.vocab_size, (tokens + 1,), dtype=torch.int32)
    return TrainingFrame(
        header=header, token_ids=ids, hidden=torch.randn(tokens, form.hidden_size, dtype=torch.bfloat16)
    )

"""A frame of random states, for timing."""

import torch

from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.data.frame import TrainingFrame, whole_response


def random_frame(form: DrafterFormat, tokens: int, *, number: int = 0) -> TrainingFrame:
    """Return a response with this many states, to a one-token prompt, for drafters of this format."""
    ids = torch.randint(0, form.vocab_size, (tokens + 1,), dtype=torch.int32)
    return whole_response(ids, torch.randn(tokens, form.hidden_size, dtype=torch.bfloat16), number=number)

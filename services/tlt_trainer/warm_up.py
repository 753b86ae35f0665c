"""A first micro-step before the first lease, since it takes much longer than any later one."""

import torch

from tlt_trainer.frame import whole_response
from tlt_trainer.learner import Learner
from tlt_trainer.pack import collate
from tlt_trainer.shared_weights import SharedWeights

TOKENS = 64
VOCABULARY = 64
"""Rows of the stand-in for embedding and head, whose files a lease brings."""


def warm_up(learner: Learner) -> None:
    """
    Let libraries load their kernels and set up the device; the learner stays as it was.

    It runs once per process, without a lease: a Preempt of the first one would wait for it otherwise.
    """
    size = learner.form.hidden_size
    hidden = torch.zeros(TOKENS, size, dtype=torch.bfloat16)
    frame = whole_response(torch.zeros(TOKENS + 1, dtype=torch.int32), hidden)
    rows = torch.zeros(VOCABULARY, size, dtype=torch.bfloat16, device=learner.device)
    learner.share(SharedWeights(embedding=rows, head=rows))
    pack = collate([frame], learner.device)
    learner.micro_step(pack, steps=False)
    learner.discard()
    learner.tally(pack)
    learner.share(None)

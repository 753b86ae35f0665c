"""A first micro-step before the first lease, since it takes much longer than any later one."""

import torch

from tlt_common.domain.hidden import FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_trainer.frame import TrainingFrame
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
    form = learner.form
    header = FrameHeader(
        request_id=RequestId("warm-up/0"),
        policy_version=PolicyVersion(0),
        prompt_hash=0,
        start=0,
        token_count=TOKENS,
        hidden_size=form.hidden_size,
        dtype="BF16",
        prompt_tokens=1,
        response_tokens=TOKENS - 1,
        finished=True,
    )
    hidden = torch.zeros(TOKENS, form.hidden_size, dtype=torch.bfloat16)
    frame = TrainingFrame(header=header, token_ids=torch.zeros(TOKENS + 1, dtype=torch.int32), hidden=hidden)
    rows = torch.zeros(VOCABULARY, form.hidden_size, dtype=torch.bfloat16, device=learner.device)
    learner.share(SharedWeights(embedding=rows, head=rows))
    pack = collate([frame], learner.device)
    learner.micro_step(pack, steps=False)
    learner.discard()
    learner.tally(pack)
    learner.share(None)

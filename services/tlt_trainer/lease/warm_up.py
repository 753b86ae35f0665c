"""Runs a first micro-step before the first lease, since it takes much longer than later ones."""

import torch

from tlt_trainer.data.frame import whole_response
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.shared_weights import SharedWeights
from tlt_trainer.learner import Learner

TOKENS = 64
VOCABULARY = 64
"""Rows of the stand-in for embedding and head, whose files a lease brings. A choice of draft tokens needs them all, and
so do masks."""


def warm_up(learner: Learner) -> None:
    """
    Make libraries load their kernels and set up the device. The learner is unchanged.

    It runs once per process and without a lease: otherwise a Preempt of the first lease would wait for it.
    """
    form = learner.form
    hidden = torch.zeros(TOKENS, form.captured_size, dtype=torch.bfloat16)
    frame = whole_response(torch.zeros(TOKENS + 1, dtype=torch.int32), hidden, layers=form.layers)
    vocabulary = form.vocab_size if form.has_map or form.block_drafts else VOCABULARY
    rows = torch.zeros(vocabulary, form.hidden_size, dtype=torch.bfloat16, device=learner.device)
    learner.share(SharedWeights(embedding=rows, head=rows))
    if has_none := learner.lacks_tokens:
        learner.choose(torch.arange(form.draft_vocab_size))
    pack = collate([frame], learner.device)
    learner.micro_step(pack, steps=False)
    learner.discard()
    learner.tally(pack)
    if has_none:
        learner.choose(torch.full((form.draft_vocab_size,), -1))
    learner.share(None)

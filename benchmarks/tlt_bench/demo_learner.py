"""A learner of a drafter for the demo's policy, on the CPU."""

import torch

from countdown.model import CHECKPOINT
from tlt_trainer.drafter.shared_weights import read_format, read_shared
from tlt_trainer.learner import Learner

CPU = torch.device("cpu")


def demo_learner(
    *, passes: int | None = None, regression_weight: float | None = None, drafts: int | None = None
) -> Learner:
    """Return a learner of an EAGLE drafter that shares the policy's embedding and head."""
    form = read_format(CHECKPOINT)
    learner = Learner(form, CPU, passes=passes, regression_weight=regression_weight, drafts=drafts)
    learner.share(read_shared(CHECKPOINT, form, CPU))
    return learner

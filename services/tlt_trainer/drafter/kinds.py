"""The kinds of drafters that can be trained."""

from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter.draft_model import DraftModel
from tlt_trainer.drafter.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.model import Drafter


def drafter_of(form: DrafterFormat) -> DraftModel:
    """Return an untrained drafter of this format. Equal formats give equal weights."""
    return Eagle3Drafter(form) if form.is_eagle3 else Drafter(form)

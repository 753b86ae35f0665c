"""The module that trains drafters of a format."""

from collections.abc import Mapping
from typing import Final

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.kinds.eagle import Drafter
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds.mtp import MtpDrafter

KINDS: Final[Mapping[DrafterArchitecture, type[DraftModel]]] = {
    DrafterArchitecture.EAGLE: Drafter,
    DrafterArchitecture.EAGLE3: Eagle3Drafter,
    DrafterArchitecture.MTP: MtpDrafter,
}


def drafter_of(form: DrafterFormat) -> DraftModel:
    """Return an untrained drafter of this format. Equal formats give equal weights."""
    return KINDS[form.architecture](form)

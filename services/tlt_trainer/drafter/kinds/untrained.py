"""Creates the module that trains drafters of a format."""

from collections.abc import Mapping
from typing import Final

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter.kinds.block import BlockDrafter
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter
from tlt_trainer.drafter.kinds.eagle import Drafter
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds.mtp import MtpDrafter

KINDS: Final[Mapping[DrafterArchitecture, type[AnyDrafter]]] = {
    DrafterArchitecture.EAGLE: Drafter,
    DrafterArchitecture.EAGLE3: Eagle3Drafter,
    DrafterArchitecture.BLOCK: BlockDrafter,
    DrafterArchitecture.MTP: MtpDrafter,
}


def drafter_of(form: DrafterFormat) -> AnyDrafter:
    """Return an untrained drafter of this format. Equal formats give equal weights."""
    return KINDS[form.architecture](form)

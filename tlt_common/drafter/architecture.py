"""Architectures of learned drafters."""

from enum import StrEnum


class DrafterArchitecture(StrEnum):
    """Architecture of a learned drafter. Each has its own module in this package, with its format."""

    EAGLE = "eagle"
    """Reads the target's last hidden state and uses the target's head (arXiv 2401.15077)."""
    EAGLE3 = "eagle3"
    """Reads hidden states of several target layers and has its own head, often over fewer tokens (arXiv 2503.01840)."""
    BLOCK = "block"
    """Reads hidden states of several target layers and drafts a block in one pass: DFlash, and DSpark (arXiv
    2607.05147)."""
    MTP = "mtp"
    """The prediction head in the target's checkpoint, such as GLM-4.5's and MiMo's."""

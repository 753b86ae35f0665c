"""Names of a drafter's tensors in SGLang."""

from typing import Final

MAP: Final = "d2t"
"""Token map of an EAGLE-3 drafter: [D], target token minus draft token for each of its D draft tokens."""
INVERSE_MAP: Final = "t2d"
"""Whether each target token is in the map, [V]. Derived from the map."""
LAYER: Final = "layers.0."
"""Prefix of the tensors of a drafter's one layer."""
HEAD: Final = "lm_head.weight"
EMBEDDING: Final = "embed_tokens.weight"
BIAS: Final = "fc.bias"
"""SGLang's EAGLE layer has a bias, and leaves it random if the file has none; ours is zero."""


def canonical_name(name: str) -> str:
    """Return SGLang's name of a published drafter's tensor; EAGLE-3's authors name its layer `midlayer`."""
    return name.removeprefix("model.").replace("midlayer.", LAYER)

"""Names of a drafter's tensors in SGLang."""

import re
from typing import Final

MAP: Final = "d2t"
"""Token map of an EAGLE-3 drafter: [D], target token minus draft token for each of its D draft tokens."""
INVERSE_MAP: Final = "t2d"
"""Whether each target token is in the map, [V]. Derived from the map."""
LAYER: Final = "layers.0."
"""Prefix of the tensors of a drafter's one layer."""
HEAD: Final = "lm_head.weight"
MARKOV: Final = ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")
"""DSpark's vectors of the token before a draft, and of the tokens that a draft can be."""
TABLES: Final = (HEAD, *MARKOV)
"""Trained tensors whose rows belong to tokens."""
EMBEDDING: Final = "embed_tokens.weight"
BIAS: Final = "fc.bias"
"""SGLang's EAGLE layer has a bias, and leaves it random if the file has none; ours is zero."""
_DERIVED: Final = "rotary_emb.inv_freq"
_PUBLISHED: Final = {
    "midlayer.": LAYER, "transformer.": LAYER, "fusion_fc.": "fc.", "aux_norm_low.": "fc_norm.0.",
    "aux_norm_mid.": "fc_norm.1.", "aux_norm_high.": "fc_norm.2.",
}  # fmt: skip
"""Names of EAGLE-3's authors and of speculators, by how they begin."""


def canonical_name(name: str) -> str:
    """Return SGLang's name of a published drafter's tensor."""
    name = name.removeprefix("model.")
    for published, ours in _PUBLISHED.items():
        if name.startswith(published):
            return ours + name.removeprefix(published)
    return name


def layer_of(name: str) -> int:
    """Return the drafter layer to which a tensor belongs, by canonical name; -1 for none."""
    found = re.match(r"layers\.(\d+)\.", name)
    return int(found[1]) if found else -1


def is_derived(name: str) -> bool:
    """Return whether a tensor is derived from config.json. Only some tools write it."""
    return name.endswith(_DERIVED)

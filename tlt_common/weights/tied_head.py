"""Whether a model's output head is its embedding."""

from collections.abc import Mapping
from typing import Any

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"


def is_tied(config: Mapping[str, Any]) -> bool:
    """
    Return whether a `config.json` ties the head to the embedding, as transformers and SGLang read it.

    Configurations are written without what is the default of their family, and those of a model with several parts may
    say it only of the part that reads text. Imports transformers for a family whose configuration does not say it.
    """
    text = config.get("text_config")
    for part in (config, text if isinstance(text, Mapping) else {}):
        if (said := part.get("tie_word_embeddings")) is not None:
            return bool(said)
    return _default_of(config.get("model_type"))


def _default_of(family: object) -> bool:
    if not isinstance(family, str):
        return False
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return family in CONFIG_MAPPING and bool(getattr(CONFIG_MAPPING[family], "tie_word_embeddings", False))

"""Detects models whose output head is tied to the embedding."""

from collections.abc import Mapping
from typing import Any

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"


def is_tied(config: Mapping[str, Any]) -> bool:
    """
    Return whether a `config.json` ties the head to the embedding, as transformers and SGLang read it.

    Configurations omit defaults of their family, and those of multi-part models may specify it for the text part only.
    Imports transformers if the configuration does not specify it.
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

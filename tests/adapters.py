"""Adapters that PEFT made, and what PEFT makes of them."""

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM


def peft_model(base: Path, *, seed: int = 1, size: float = 0.1, **config: Any) -> PeftModel:
    """Return a checkpoint's model in float32 with a LoRA adapter that is not zero."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # of embeddings that are tied, or saved
        adapted = get_peft_model(model, LoraConfig(**config))
    torch.manual_seed(seed)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad:
            noise = torch.randn_like(parameter)
            changed = parameter * (1 + size * noise) if "magnitude" in name else size * noise
            parameter.data.copy_(changed)
    assert isinstance(adapted, PeftModel)
    return adapted


def write_adapter(model: PeftModel, directory: Path) -> Path:
    """Write the adapter as PEFT does."""
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        model.save_pretrained(str(directory))
    return directory


def write_merged(model: PeftModel, directory: Path) -> Path:
    """Write what PEFT merges, as a whole checkpoint."""
    copy.deepcopy(model).merge_and_unload().save_pretrained(directory)
    return directory

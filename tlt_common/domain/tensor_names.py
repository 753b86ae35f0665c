"""Names of tensors as checkpoints have them, without what wrappers of modules add."""

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"})
"""Attributes in which torch.compile, FSDP, activation checkpointing and Lightning's strategies keep what they wrap. No
module of a checkpoint is called so."""
_PARALLEL = "module."
"""Beginning of names in DataParallel and DeepSpeed's engine."""
_PEFT = "base_model.model."
_PEFT_LAYER = "base_layer"


def plain_name(name: str) -> str:
    """
    Return the name of a tensor without wrappers.

    A name that still has a trace of an adapter (`lora_A`, `modules_to_save`) is left to be refused: whether it was
    merged into the weights is not known.
    """
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    plain = ".".join(parts)
    while plain.startswith((_PARALLEL, _PEFT)):
        if plain.startswith(_PEFT):
            plain = ".".join(part for part in plain.removeprefix(_PEFT).split(".") if part != _PEFT_LAYER)
        else:
            plain = plain.removeprefix(_PARALLEL)
    return plain

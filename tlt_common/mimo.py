"""
MiMo support for transformers, which lacks it: MiMo checkpoints bring their own code, which is never run.

A MiMo is a Qwen2 whose checkpoint also has a head that predicts further tokens; SGLang has a class for both. Processes
that read a MiMo's config.json with transformers call `register` first. Import this module lazily, since importing
transformers takes seconds.
"""

from transformers import AutoConfig, Qwen2Config


class MiMoConfig(Qwen2Config):  # type: ignore[no-untyped-call] # transformers
    """A Qwen2 configuration with the number of prediction layers. SGLang sends it to its processes."""

    model_type = "mimo"
    num_nextn_predict_layers: int = 1


def register() -> None:
    """Make transformers read a MiMo's config.json. Idempotent."""
    AutoConfig.register(MiMoConfig.model_type, MiMoConfig, exist_ok=True)


def register_model() -> None:
    """Make transformers build and run the model, too."""
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

    class MiMoForCausalLM(Qwen2ForCausalLM):  # type: ignore[no-untyped-call] # transformers
        """The policy without its head."""

        config_class = MiMoConfig
        _keys_to_ignore_on_load_unexpected = [r"model\.mtp_layers\."]  # noqa: RUF012 - as transformers has it

    register()
    AutoModelForCausalLM.register(MiMoConfig, MiMoForCausalLM, exist_ok=True)

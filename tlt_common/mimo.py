"""
MiMo for transformers, which does not know it: its checkpoints bring code of their own, which is never run.

A MiMo is a Qwen2 whose checkpoint also has a head that predicts further tokens; SGLang has a class for both. So has
every process that reads one's config.json by transformers, once it called `register`. Imported where that is needed,
since transformers takes seconds.
"""

from transformers import AutoConfig, Qwen2Config


class MiMoConfig(Qwen2Config):  # type: ignore[no-untyped-call] # transformers
    """A Qwen2's, with the number of layers that predict further tokens. SGLang sends it to its processes."""

    model_type = "mimo"
    num_nextn_predict_layers: int = 1


def register() -> None:
    """Let transformers read a MiMo's config.json. May be repeated."""
    AutoConfig.register(MiMoConfig.model_type, MiMoConfig, exist_ok=True)


def register_model() -> None:
    """Let transformers build and run one, too."""
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

    class MiMoForCausalLM(Qwen2ForCausalLM):  # type: ignore[no-untyped-call] # transformers
        """The policy without its head."""

        config_class = MiMoConfig
        _keys_to_ignore_on_load_unexpected = [r"model\.mtp_layers\."]  # noqa: RUF012 - as transformers has it

    register()
    AutoModelForCausalLM.register(MiMoConfig, MiMoForCausalLM, exist_ok=True)

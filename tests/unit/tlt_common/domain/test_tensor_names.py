"""Names of tensors without wrappers."""

import pytest

from tlt_common.domain.weights import plain_name

NAME = "model.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    "given",
    [
        NAME,
        "_orig_mod." + NAME,
        "module." + NAME,
        "module._orig_mod." + NAME,
        "_orig_mod.module." + NAME,
        "model._orig_mod.layers.0.self_attn.q_proj.weight",
        "_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.self_attn.q_proj.weight",
        "_forward_module.module." + NAME,
        "base_model.model." + NAME,
        "base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight",
        "module._orig_mod.base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight",
    ],
)
def test_wrappers_leave_the_name(given: str) -> None:
    assert plain_name(given) == NAME


@pytest.mark.parametrize(
    "given",
    [
        "model.module.weight",
        "lm_head.weight",
        "model.base_layer.weight",
        "base_model.embed.weight",
        "_orig_mod_x.weight",
    ],
)
def test_other_names_stay(given: str) -> None:
    assert plain_name(given) == given


@pytest.mark.parametrize("part", ["lora_A.default", "modules_to_save.default", "original_module"])
def test_traces_of_an_adapter_stay(part: str) -> None:
    assert part in plain_name(f"base_model.model.model.layers.0.self_attn.q_proj.{part}.weight")

"""A drafter's config.json says its format, whichever version of transformers reads it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat, require_fit
from tlt_common.drafter.reading import format_of, standard_format
from tlt_common.errors import ConfigError, WeightsError

ROPES: tuple[dict[str, Any], ...] = (
    {},
    {"rope_theta": 5e5},
    {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "yarn", "rope_theta": 7.0, "factor": 4.0}},
)


@st.composite
def targets(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.sampled_from((2, 4, 8)))
    return {
        "vocab_size": draw(st.integers(2, 64)), "hidden_size": heads * draw(st.integers(1, 8)),
        "intermediate_size": draw(st.integers(1, 64)), "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from((1, 2))), "num_hidden_layers": draw(st.integers(8, 40)),
        "tie_word_embeddings": draw(st.booleans()), **draw(st.sampled_from(ROPES)),
    }  # fmt: skip


@st.composite
def targets_with_heads(draw: st.DrawFn) -> dict[str, Any]:
    family = {
        "Glm4MoeForCausalLM": {
            "attention_bias": draw(st.booleans()), "use_qk_norm": draw(st.booleans()), "n_routed_experts": 4,
            "moe_intermediate_size": draw(st.integers(1, 9)), "n_shared_experts": draw(st.integers(0, 2)),
            "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 2.5,
            "partial_rotary_factor": draw(st.sampled_from((0.5, 1.0))),
        },
        "MiMoForCausalLM": {},
    }  # fmt: skip
    name = draw(st.sampled_from(sorted(family)))
    return {**draw(targets()), "architectures": [name], "num_nextn_predict_layers": 1, **family[name]}


@given(targets_with_heads())
def test_what_a_heads_format_writes_is_read_as_that_format(target: dict[str, Any]) -> None:
    form = standard_format(DrafterArchitecture.MTP, target)
    written = form.config(target)
    assert format_of(written, target) == form
    kept = {key: value for key, value in written.items() if key != "rope_parameters"}
    assert format_of(kept, target) == form
    names = [*form.tensor_shapes(), *form.frozen_shapes()]
    assert [form.canonical_name(form.published_name(name)) for name in names] == names
    assert len({form.published_name(name) for name in names}) == len(names)


def test_a_head_is_refused_for_another_family_and_another_depth() -> None:
    sizes = {
        "vocab_size": 9, "hidden_size": 4, "intermediate_size": 4, "num_attention_heads": 1, "num_hidden_layers": 3,
        "num_nextn_predict_layers": 1, "n_routed_experts": 2, "moe_intermediate_size": 4, "num_experts_per_tok": 1,
    }  # fmt: skip
    mimo, glm = ({**sizes, "architectures": [name]} for name in ("MiMoForCausalLM", "Glm4MoeForCausalLM"))
    head = standard_format(DrafterArchitecture.MTP, mimo)
    with pytest.raises(WeightsError, match=r"is a head of MiMoForCausalLM; its target is \['Glm4MoeForCausalLM'\]"):
        format_of(head.config(mimo), glm)
    with pytest.raises(WeightsError, match="num_hidden_layers is 3; accepted: 4"):
        format_of(head.config(mimo), {**mimo, "num_hidden_layers": 4})
    with pytest.raises(WeightsError, match="architecture is 'mtp'; the engine was launched for 'eagle'"):
        require_fit(standard_format(DrafterArchitecture.EAGLE, mimo), head)
    with pytest.raises(WeightsError, match="num_nextn_predict_layers is 3; accepted: 1"):
        standard_format(DrafterArchitecture.MTP, {**glm, "num_nextn_predict_layers": 3})
    with pytest.raises(WeightsError, match="bring no head that is served; accepted: Glm4MoeForCausalLM"):
        standard_format(DrafterArchitecture.MTP, {**glm, "architectures": ["LlamaForCausalLM"]})


EAGLES = (DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3)


@given(targets(), st.sampled_from(EAGLES), st.integers(1, 64))
def test_what_a_format_writes_is_read_as_that_format(
    target: dict[str, Any], architecture: DrafterArchitecture, vocabulary: int
) -> None:
    form = standard_format(architecture, target, draft_vocabulary=vocabulary)
    written = form.config(target)
    assert (form.architecture, written["architectures"]) == (architecture, [form.model_class])
    assert format_of(written, target) == form
    for later in ("rope_parameters", "rope_scaling"):
        kept = {key: value for key, value in written.items() if key != later}
        assert format_of(kept, target) == form
    require_fit(form, format_of(written, target))


def test_a_head_may_know_fewer_tokens_than_the_running_one_but_not_more() -> None:
    target = {"vocab_size": 9, "hidden_size": 4, "intermediate_size": 4, "num_attention_heads": 1}
    layers = {**target, "num_hidden_layers": 8}

    def eagle3(tokens: int) -> DrafterFormat:
        return standard_format(DrafterArchitecture.EAGLE3, layers, draft_vocabulary=tokens)

    require_fit(eagle3(8), eagle3(5))
    with pytest.raises(WeightsError, match="draft_vocab_size is 8; the engine was launched for 5"):
        require_fit(eagle3(5), eagle3(8))


@given(targets_with_heads(), st.sampled_from(DrafterArchitecture), st.integers(1, 80), st.integers(1, 4))
def test_an_engine_drafts_from_some_rows_of_its_targets_head(
    target: dict[str, Any], architecture: DrafterArchitecture, tokens: int, ranks: int
) -> None:
    published = standard_format(architecture, target)
    served = published.reduced(tokens, ranks=ranks)
    if published.trains_head:
        assert (served, served.head_rows) == (published, 0)
        return
    rows = served.draft_vocab_size
    assert rows == published.vocab_size or (tokens <= rows < tokens + ranks and rows % ranks == 0)
    assert served.head_rows == (rows if rows < published.vocab_size else 0)
    # What is published and trained stays as it is, and fits.
    assert (served.tensor_shapes(), served.config()) == (published.tensor_shapes(), published.config())
    require_fit(served, published)


def test_a_target_without_a_size_is_named() -> None:
    with pytest.raises(ConfigError, match="intermediate_size"):
        standard_format(DrafterArchitecture.EAGLE, {"vocab_size": 9, "hidden_size": 4, "num_attention_heads": 1})

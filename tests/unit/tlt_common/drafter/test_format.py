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


@given(targets(), st.sampled_from(DrafterArchitecture), st.integers(1, 64))
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


def test_a_target_without_a_size_is_named() -> None:
    with pytest.raises(ConfigError, match="intermediate_size"):
        standard_format(DrafterArchitecture.EAGLE, {"vocab_size": 9, "hidden_size": 4, "num_attention_heads": 1})

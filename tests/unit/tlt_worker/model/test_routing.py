"""Rows of routed experts are packed as they are, or refused."""

import base64

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.families import stated
from tlt_common.errors import ConfigError, RequestFailedError
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import MAX_ROUTED_BYTES, require_runnable
from tlt_worker.model.routing import Routing

ROUTING = Routing(layers=3, top_k=2, experts=8, sparse=(1, 2))
WIDE = Routing(layers=3, top_k=2, experts=300, sparse=(1, 2))


def rows(tokens: int = 4, experts: int = 8) -> NDArray[np.int32]:
    """Rows as SGLang has them: a dense layer, then two with experts."""
    random = np.random.default_rng(0)
    found = np.zeros((tokens, 3, 2), np.int32)
    for token in found:
        token[1:] = [random.permutation(experts)[:2] for _ in range(2)]
    return found


def encoded(found: NDArray[np.int32]) -> str:
    return base64.b64encode(found.astype("<i4").tobytes()).decode()


@pytest.mark.parametrize(("routing", "dtype", "row_bytes"), [(ROUTING, "U8", 6), (WIDE, "I32", 24)])
def test_rows_are_packed_in_the_fewest_bytes_and_read_back(routing: Routing, dtype: str, row_bytes: int) -> None:
    found = rows(experts=routing.experts)
    packed = routing.packed(encoded(found), first=2, tokens=4)
    assert (packed.dtype, packed.first, packed.tokens, len(packed.data)) == (dtype, 2, 4, 4 * row_bytes)
    assert routing.row_bytes == row_bytes
    assert np.array_equal(packed.array(), found)
    assert packed.int32() == found.astype("<i4").tobytes()


def test_a_response_of_one_token_after_the_prompt_has_no_rows() -> None:
    packed = ROUTING.packed("", first=3, tokens=0)
    assert packed.tokens == 0
    assert packed.array().shape == (0, 3, 2)


@pytest.mark.parametrize(
    ("place", "expert"), [((3, 2, 1), 8), ((3, 2, 1), -1), *(((2, at), 0) for at in ROUTING.sparse)]
)
def test_numbers_of_no_expert_and_rows_that_nobody_wrote_are_refused(place: tuple[int, ...], expert: int) -> None:
    found = rows()
    found[place] = expert
    with pytest.raises(RequestFailedError, match="did not record"):
        ROUTING.packed(encoded(found), first=0, tokens=4)


@pytest.mark.parametrize("sent", [None, encoded(rows(3)), encoded(rows(5))])
def test_rows_of_other_tokens_are_refused(sent: str | None) -> None:
    with pytest.raises(RequestFailedError, match="routed experts for 4 tokens of 3 layers"):
        ROUTING.packed(sent, first=0, tokens=4)


@pytest.mark.parametrize(
    ("family", "sparse"), [("qwen3_moe", (0, 1)), ("glm4_moe", (1,)), ("gpt_oss", (0, 1)), ("llama", None)]
)
def test_what_a_model_routes_is_told_by_its_configuration(family: str, sparse: tuple[int, ...] | None) -> None:
    routing = Routing.of(stated(family))
    if sparse is None:
        assert routing is None
    else:
        assert routing == Routing(layers=2, top_k=2, experts=8, sparse=sparse)


def test_engines_that_cannot_return_experts_do_not_start() -> None:
    asked = EngineConfig(return_routed_experts=True)
    require_runnable(stated("qwen3_moe"), asked)
    with pytest.raises(ConfigError, match=r"knows no such mixture of experts; accepted: Qwen3-MoE, GLM") as raised:
        require_runnable(stated("qwen3"), asked)
    assert raised.value.field == "engine.return_routed_experts"
    unlisted = EngineConfig(return_routed_experts=True, allow_unlisted=True)
    with pytest.raises(ConfigError, match=r"knows no such mixture of experts"):
        require_runnable(stated("qwen3_moe", architectures=["OtherMoeForCausalLM"]), unlisted)
    most = MAX_ROUTED_BYTES // 4  # two layers of two experts
    require_runnable(stated("qwen3_moe", max_position_embeddings=most), asked)
    with pytest.raises(ConfigError, match=rf"engine.context_length of at most {most}"):
        require_runnable(stated("qwen3_moe", max_position_embeddings=most + 1), asked)

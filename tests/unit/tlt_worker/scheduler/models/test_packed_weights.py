"""Products with packed weights are torch's, and follow changes of the weights."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tlt_worker.scheduler.models import packed_weights

INPUT, OUTPUT = 96, 160
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Of the largest output: each is the sum of 96 products, rounded in one order or another, and then to its type."""


def weight(dtype: torch.dtype, seed: int = 0) -> nn.Parameter:
    return nn.Parameter(noise(seed, OUTPUT, INPUT).to(dtype), requires_grad=False)


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_equal_products(made: Tensor, x: Tensor, weight_OI: Tensor, bias: Tensor | None = None) -> None:
    expected = functional.linear(x.double(), weight_OI.double(), None if bias is None else bias.double())
    assert made.dtype == x.dtype
    assert made.shape == expected.shape
    assert (made.double() - expected).abs().max() <= TOLERANCE[x.dtype] * expected.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (64,), (2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_is_that_of_torch(dtype: torch.dtype, shape: tuple[int, ...], biased: bool) -> None:
    x, weight_OI = noise(1, *shape, INPUT).to(dtype), weight(dtype)
    bias = noise(2, OUTPUT).to(dtype) if biased else None
    assert_equal_products(packed_weights.linear(x, weight_OI, bias), x, weight_OI, bias)


def test_rows_that_are_not_contiguous_are_multiplied_as_they_are() -> None:
    x, weight_OI = noise(1, INPUT, 4).t(), weight(torch.float32)
    assert_equal_products(packed_weights.linear(x, weight_OI), x, weight_OI)


def test_nothing_is_packed_for_no_rows_and_for_other_types() -> None:
    assert packed_weights.linear(torch.empty(0, INPUT), weight(torch.float32)).shape == (0, OUTPUT)
    x, weight_OI = noise(1, 4, INPUT).double(), weight(torch.float64)
    assert torch.equal(packed_weights.linear(x, weight_OI), functional.linear(x, weight_OI))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_new_weights_are_used_once_a_layer_has_been_loaded(dtype: torch.dtype) -> None:
    layer, x = SimpleNamespace(weight=weight(dtype)), noise(1, 4, INPUT).to(dtype)
    assert_equal_products(packed_weights.multiply(_unreached, None, layer, x), x, layer.weight)
    layer.weight.data.copy_(weight(dtype, seed=9))  # as SGLang loads: unseen by torch's count of versions
    done: list[Any] = []
    packed_weights.forget(lambda _, loaded: done.append(loaded), None, layer)
    assert done == [layer]
    assert_equal_products(packed_weights.multiply(_unreached, None, layer, x), x, layer.weight)


def test_the_product_of_other_types_is_sglangs() -> None:
    layer, x = SimpleNamespace(weight=weight(torch.float32)), noise(1, 4, INPUT).bfloat16()
    assert packed_weights.multiply(lambda *_: "SGLang's", None, layer, x) == "SGLang's"


def test_logits_are_sglangs_where_its_head_is_not_a_plain_product() -> None:
    head, hidden = SimpleNamespace(weight=weight(torch.float32)), noise(1, 4, INPUT)
    plain, precise = SimpleNamespace(use_fp32_lm_head=False), SimpleNamespace(use_fp32_lm_head=True)
    assert_equal_products(packed_weights.logits(_unreached, plain, hidden, head, out=None), hidden, head.weight)
    assert packed_weights.logits(lambda *_, **__: "SGLang's", precise, hidden, head) == "SGLang's"
    head.set_lora = None
    assert packed_weights.logits(lambda *_, **__: "SGLang's", plain, hidden, head) == "SGLang's"


def _unreached(*_: Any, **__: Any) -> None:
    pytest.fail("SGLang's product is not called")

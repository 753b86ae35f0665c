"""An engine for OpenRLHF's executors, against a real gateway."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import gateway
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.openrlhf import TltEngine
from tlt_gateway.config import GatewayConfig


class Words:
    """A tokenizer whose token 7 is the word w7."""

    eos_token_id: int | None = None

    def decode(self, ids: list[int], **_: Any) -> str:
        return " ".join(f"w{token}" for token in ids)


def params(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"temperature": 1.0, "top_k": -1, "max_tokens": 3, "logprobs": 1} | changes)


async def test_responses_have_the_form_of_vllm() -> None:
    async with (
        FakeWorker() as worker,
        gateway(GatewayConfig(workers=(worker.address,))) as address,
    ):
        engine = TltEngine(address, tokenizer=Words())
        (whole,) = (await engine.generate([3, 10], params())).outputs
        (bare,) = (await engine.generate([3, 12], params(logprobs=None, stop_token_ids=[13]))).outputs
        await engine.aclose()
    assert (whole.token_ids, whole.text, whole.finish_reason) == ([11, 12, 13], "w11 w12 w13", "length")
    assert [entry[token].logprob for entry, token in zip(whole.logprobs or [], whole.token_ids, strict=True)] == [
        -11 / 128, -12 / 128, -13 / 128,
    ]  # fmt: skip
    assert (bare.token_ids, bare.finish_reason, bare.logprobs) == ([13], "stop", None)


@pytest.mark.parametrize(("ignored", "tokens"), [(False, [11, 12]), (True, [11, 12, 13])])
async def test_responses_end_at_the_tokenizers_end_token(ignored: bool, tokens: list[int]) -> None:
    tokenizer = Words()
    tokenizer.eos_token_id = 12
    async with (
        FakeWorker() as worker,
        gateway(GatewayConfig(workers=(worker.address,))) as address,
    ):
        engine = TltEngine(address).bound(tokenizer)
        (output,) = (await engine.generate([3, 10], params(ignore_eos=ignored))).outputs
        await engine.aclose()
    assert (output.token_ids, output.finish_reason) == (tokens, "length" if ignored else "stop")


@pytest.mark.parametrize(("keeps", "text"), [(False, "w11 w"), (True, "w11 w12")])
async def test_a_stop_string_ends_a_response(keeps: bool, text: str) -> None:
    async with FakeWorker() as worker:
        worker.decode = lambda ids: Words().decode(ids)
        async with gateway(GatewayConfig(workers=(worker.address,))) as address:
            engine = TltEngine(address, tokenizer=Words())
            asked = params(stop="12", include_stop_str_in_output=keeps)
            (output,) = (await engine.generate([3, 10], asked)).outputs
            await engine.aclose()
    assert (output.token_ids, output.text, output.finish_reason) == ([11, 12], text, "stop")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"stop": [""]}, "stop"), ({"n": 2}, "n is 2"), ({"logprobs": 5}, "logprobs is 5"), ({"top_p": 2.0}, "top_p")],
)
async def test_what_has_no_effect_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    engine = TltEngine("127.0.0.1:1", patience_s=0)
    with pytest.raises(InvalidRequestError, match=message):
        await engine.generate([3], params(**change))
    with pytest.raises(InvalidRequestError, match="images"):
        await engine.generate([3], params(), multi_modal_data={"image": [1]})
    await engine.aclose()


@pytest.mark.parametrize("name", ["trl", "openrlhf", "verl.server", "weights", "nemo_rl"])
def test_adapters_import_no_trainer(name: str) -> None:
    heavy = "('trl', 'torch', 'openrlhf', 'vllm', 'verl', 'ray', 'transformers')"
    code = f"import sys, tlt_common.integrations.{name}; sys.exit(any(one in sys.modules for one in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

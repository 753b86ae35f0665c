"""SGLang's and OpenAI's own Python clients work with the gateway as with SGLang's server."""

import json
import os
import subprocess
import sys
from typing import Any

import openai
import pytest

from tests.conformance.servers import ROOT
from tests.conformance.sides import IDS, TEXT, Sides

pytestmark = pytest.mark.timeout(1200)

PROGRAM = """
import json, sys
import sglang as sgl
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint

url, text = sys.argv[1:]

@sgl.function
def solve(s):
    s += text + sgl.gen("first", max_tokens=5, temperature=0)
    s += sgl.gen("second", max_tokens=5, temperature=0, return_logprob=True)

endpoint = RuntimeEndpoint(url)
state = solve.run(backend=endpoint)
streamed = "".join(solve.run(backend=endpoint, stream=True).text_iter())
batch = solve.run_batch([{}, {}], backend=endpoint)
endpoint.flush_cache()
print(json.dumps({
    "text": state.text(),
    "second": state["second"],
    "ids": [entry[1] for entry in state.get_meta_info("second")["output_token_logprobs"]],
    "streamed": streamed,
    "batch": [each.text() for each in batch],
    "info": sorted(endpoint.get_server_info().keys() & {"model_path", "version"}),
}))
"""


def _run(url: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, TEXT],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_sglangs_client_gets_the_same(sides: Sides) -> None:
    theirs, ours = (_run(side.url) for side in (sides.stock, sides.suite))
    assert theirs == ours
    assert ours["streamed"] == ours["text"] == ours["batch"][0]


@pytest.mark.parametrize("prompt", [TEXT, list(IDS)], ids=["text", "ids"])
def test_openais_client_gets_the_same(sides: Sides, prompt: Any) -> None:
    found = []
    for side in (sides.stock, sides.suite):
        with openai.OpenAI(base_url=f"{side.url}/v1", api_key="none") as client:
            (model,) = client.models.list().data
            asked: dict[str, Any] = {"model": model.id, "prompt": prompt, "max_tokens": 9, "temperature": 0}
            whole = client.completions.create(**asked, logprobs=1)
            (choice,) = whole.choices
            assert choice.logprobs is not None
            parts = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
            streamed = "".join(part.choices[0].text for part in parts if part.choices)
            tokens, usages = choice.logprobs.tokens, (whole.usage, parts[-1].usage)
            found.append((choice.text, choice.finish_reason, streamed, tokens))
            assert [(usage.prompt_tokens, usage.completion_tokens) for usage in usages if usage] == [(len(IDS), 9)] * 2
            with pytest.raises(openai.BadRequestError):
                client.completions.create(**asked | {"temperature": -1.0})
    assert found[0] == found[1]

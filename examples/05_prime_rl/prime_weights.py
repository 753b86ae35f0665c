"""prime-rl's own update of weights on the suite: its inference pool pauses, names a directory and resumes."""

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import httpx
from prime_client import QUESTION, prepared
from prime_rl.configs.shared import ClientConfig
from prime_rl.utils.client import InferencePool
from prime_rl.utils.pathing import get_broadcast_dir, get_step_path
from safetensors.torch import load_file, save_file
from verifiers.v1.clients.train import TrainClient
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.types import SamplingConfig

NEW_TOKENS = 1500
STEP = 1


def broadcast(model: Path, directory: Path) -> Path:
    """Write weights where prime-rl's trainer does, slightly different ones, and its marker; return the directory."""
    written: Path = get_step_path(get_broadcast_dir(directory), STEP)
    shutil.copytree(model, written)
    weights = {name: tensor * (1 + 2**-10) for name, tensor in load_file(model / "model.safetensors").items()}
    save_file(weights, written / "model.safetensors", metadata={"format": "pt"})
    (written / "STABLE").touch()
    return written


async def spans_of(http: str, prompt: list[int]) -> list[Any]:
    """Generate a long response; return which weights made which tokens, which prime-rl's client does not pass on."""
    sampling = {"max_tokens": NEW_TOKENS, "ignore_eos": True, "logprobs": 1}
    async with httpx.AsyncClient(base_url=http, timeout=600, trust_env=False) as client:
        answer = await client.post("/inference/v1/generate", json={"token_ids": prompt, "sampling_params": sampling})
    answer.raise_for_status()
    spans: list[Any] = answer.json()["choices"][0]["weight_versions"]
    return spans


async def main(http: str, model: Path) -> None:
    """Update amid two responses and check what prime-rl receives."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tokenizer = prepared(model, directory / "tokenizer")
        config = ClientConfig(base_url=f"{http}/v1")
        pool = InferencePool(config, str(directory / "tokenizer"), train_client_type="renderer")
        await pool.wait_for_ready(model.name)
        client = TrainClient(pool.train_client)
        sampling: Any = SamplingConfig(temperature=1.0, max_tokens=NEW_TOKENS, cache_salt="0")
        body = {"model": model.name, "messages": [QUESTION]}
        async with asyncio.TaskGroup() as tasks:
            response = tasks.create_task(client.get_response(ChatDialect(), body, sampling, session_id="rollout-1"))
            spans = tasks.create_task(spans_of(http, tokenizer(QUESTION["content"])["input_ids"]))
            await asyncio.sleep(1.5)
            await pool.update_weights(await asyncio.to_thread(broadcast, model, directory), step=STEP)
        await client.close()
        await pool.stop()
    tokens = response.result().tokens
    assert tokens is not None  # noqa: S101
    assert 0 < len(tokens.completion_ids) == len(tokens.completion_logprobs)  # noqa: S101
    before, after = spans.result()
    assert int(after["version"]) == int(before["version"]) + 1, "the update came before or after the response"  # noqa: S101
    print(f"result: {before['end']} tokens before the update and {after['end'] - after['start']} after it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    asyncio.run(main(options.http, options.model.resolve()))

"""The client of prime-rl's environments (verifiers, renderers) against the suite: two turns of tokens."""

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer
from verifiers.v1.clients.train import TrainClient
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.types import SamplingConfig

TEMPLATE = "<bos>{% for message in messages %} {{ message.content }}{% endfor %}"
QUESTION = {"role": "user", "content": "Numbers 2 5 7 . Target 14 ."}


def prepared(model: Path, directory: Path) -> Any:
    """Write the checkpoint's tokenizer, with a chat template, into a directory; return it."""
    directory.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model / name, directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.chat_template = TEMPLATE  # the checkpoint has none
    tokenizer.save_pretrained(directory)
    return tokenizer


async def main(http: str, model: Path) -> None:
    """Ask twice, the second time with the first answer, and check what the learner would receive."""
    with tempfile.TemporaryDirectory() as directory:
        prepared(model, Path(directory))
        client = TrainClient(TrainClientConfig(base_url=f"{http}/v1", renderer_model_name=directory))
        sampling: Any = SamplingConfig(temperature=1.0, max_tokens=48, cache_salt="1")
        messages: list[dict[str, Any]] = [QUESTION]
        turns = []
        for feedback in ("Hmm", ""):
            body = {"model": model.name, "messages": messages}
            answer = await client.get_response(ChatDialect(), body, sampling, session_id="rollout-1")
            turns.append(answer.tokens)
            messages = [*messages, {"role": "assistant", "content": answer.message.content}]
            messages.append({"role": "user", "content": feedback})
        await client.close()
    for tokens in turns:
        assert tokens is not None  # noqa: S101
        assert 0 < len(tokens.completion_ids) == len(tokens.completion_logprobs) <= 48  # noqa: S101
        assert all(logprob <= 0 for logprob in tokens.completion_logprobs)  # noqa: S101
    first, second = turns
    assert second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids  # noqa: S101
    print(f"result: turns of {len(first.completion_ids)} and {len(second.completion_ids)} tokens, logprobs of each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    asyncio.run(main(options.http, options.model))

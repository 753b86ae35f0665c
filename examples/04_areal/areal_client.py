"""AReaL's RemoteSGLangEngine against the suite: an update of the weights amid a response, and a workflow's episodes."""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from areal.api import ModelRequest
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig, NameResolveConfig
from areal.api.io_struct import WeightUpdateMeta
from areal.engine.sglang_remote import RemoteSGLangEngine
from areal.utils import name_resolve, names
from areal.workflow.rlvr import RLVRWorkflow
from transformers import AutoTokenizer

EXPERIMENT, TRIAL = "tlt", "example"
NEW_TOKENS = 1500


def answers(_prompt: str, completion: str, _prompt_ids: Any, _ids: Any, **_: Any) -> float:
    """Reward a response that gives an answer."""
    return float("Answer" in completion)


def prompt_of(data: Any, tokenizer: Any, _thinking: Any) -> list[int]:
    """Tokenize plain text; the checkpoint has no chat template."""
    ids: list[int] = tokenizer(data)["input_ids"]
    return ids


async def interrupted(engine: Any, tokenizer: Any, model: Path) -> Any:
    """Update the weights while a response is generated, as AReaL's trainer does; return the response."""
    limits = GenerationHyperparameters(max_new_tokens=NEW_TOKENS, max_tokens=2000, ignore_eos=True)
    request = ModelRequest(input_ids=tokenizer("Numbers 2 5 7 . Target 14 .")["input_ids"], gconfig=limits)
    generating = asyncio.create_task(engine.agenerate(request))
    await asyncio.sleep(1.5)
    await asyncio.to_thread(updated, engine, model)
    return await generating


def updated(engine: Any, model: Path) -> None:
    """Pause, announce the checkpoint, have it loaded, continue."""
    engine.pause()
    engine.pause_generation()
    name = names.update_weights_from_disk(EXPERIMENT, TRIAL, engine.get_version())
    name_resolve.add(name, str(time.time()), keepalive_ttl=120, replace=True)
    meta = WeightUpdateMeta(type="disk", path=str(model), clear_checkpoint_after_load=False)
    engine.update_weights_from_disk(meta).result()
    engine.set_version(engine.get_version() + 1)
    engine.continue_generation()
    engine.resume()


def main(http: str, model: Path) -> None:
    """Run both and check what the learner would receive."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    with tempfile.TemporaryDirectory() as directory:
        name_resolve.reconfigure(NameResolveConfig(type="nfs", nfs_record_root=directory))
        config = InferenceEngineConfig(
            experiment_name=EXPERIMENT, trial_name=TRIAL, fileroot=directory, backend="sglang:d1",
            max_concurrent_rollouts=4, consumer_batch_size=2, tokenizer_path=str(model),
        )  # fmt: skip
        engine = RemoteSGLangEngine(config)
        engine.initialize(addr=urlsplit(http).netloc, train_data_parallel_size=1)
        try:
            response = asyncio.run(interrupted(engine, tokenizer, model))
            assert len(response.output_tokens) == len(response.output_logprobs) == NEW_TOKENS  # noqa: S101
            before = response.output_versions.count(0)
            assert 0 < before < NEW_TOKENS, "the update came before or after the response"  # noqa: S101
            workflow = RLVRWorkflow(
                answers, GenerationHyperparameters(max_new_tokens=64), tokenizer, get_input_ids_fn=prompt_of,
                data_extract_prompt_fn=lambda data: data["text"],
            )  # fmt: skip
            batch = engine.rollout_batch([{"text": f"Numbers 2 5 7 . Target {n} ."} for n in (14, 17)], workflow)
        finally:
            engine.destroy()
    episodes = batch if isinstance(batch, list) else [batch]
    shapes = [tuple(episode["input_ids"].shape) for episode in episodes]
    assert sum(rows for rows, _ in shapes) == 2  # noqa: S101
    print(
        f"result: {before} tokens before the update and {NEW_TOKENS - before} after it, resubmitted by AReaL; "
        "2 episodes of RLVRWorkflow with rewards"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    main(options.http, options.model)

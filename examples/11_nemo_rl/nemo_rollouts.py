"""NeMo-RL's own rollouts on the suite, then weights that its policy workers' code sends amid responses."""

import argparse
import ast
import faulthandler
import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tlt_suite.nemo_rl import TltGeneration, TltWeightSender, TltWeightSynchronizer


class NoLogger(ModuleType):
    """Stands where NeMo-RL imports loggers, which it does before it knows whether they are used."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for logger in ("mlflow", "swanlab", "wandb", "torch.utils.tensorboard"):
    sys.modules[logger] = NoLogger(logger)
    sys.modules[logger].__spec__ = ModuleSpec(logger, None)

from nemo_rl.distributed.batched_data_dict import BatchedDataDict  # noqa: E402 - after its loggers
from nemo_rl.experience.rollouts import run_async_multi_turn_rollout, run_multi_turn_rollout  # noqa: E402
from nemo_rl.models.generation.interfaces import GenerationInterface  # noqa: E402
from nemo_rl.models.policy.workers.checkpoint_engine import PolicyCheckpointEngineMixin  # noqa: E402
from nemo_rl.utils.checkpoint_engines.base import CheckpointEngine  # noqa: E402
from nemo_rl.utils.timer import Timer  # noqa: E402
from nemo_rl.weight_sync.interfaces import WeightSynchronizer  # noqa: E402

PROMPTS = ("<bos> Numbers 2 5 7 . Target 14 .", "<bos> Numbers 3 4 6 . Target 18 .")
SAMPLES = 2
NEW_TOKENS = 1500
LAST_S = 300.0
TRANSPORT = "tlt_suite.nemo_rl:TltWeightSender"
PLACES = [
    (GenerationInterface, TltGeneration),
    (WeightSynchronizer, TltWeightSynchronizer),
    (CheckpointEngine, TltWeightSender),
]


def require_compatible() -> None:
    """Check that the suite's classes have all methods of NeMo-RL's, and that `install` finds what it replaces."""
    for theirs, ours in PLACES:
        for name in [name for name in dir(theirs) if not name.startswith("_")]:
            assert hasattr(ours, name), f"{ours.__name__} has no {name}"  # noqa: S101
            if callable(method := getattr(theirs, name)):
                named = [one for one in signature(method).parameters.values() if one.kind.name[:3] != "VAR"]
                by_name = {one.name: None for one in named if one.kind is Parameter.KEYWORD_ONLY}
                signature(getattr(ours, name)).bind(*[None] * (len(named) - len(by_name)), **by_name)
    found = importlib.util.find_spec("nemo_rl.algorithms")
    assert found is not None  # noqa: S101
    assert found.submodule_search_locations is not None  # noqa: S101
    source = (Path(found.submodule_search_locations[0]) / "grpo.py").read_text()
    imports = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    assert names >= {"VllmGeneration", "create_weight_synchronizer"}  # noqa: S101


@ray.remote
class PolicyWorker(PolicyCheckpointEngineMixin):  # type: ignore[misc]
    """Stands where NeMo-RL's policy worker does, which needs CUDA, and sends weights by that one's code."""

    def __init__(self, rank: int, model: str) -> None:
        self.rank = rank
        self._policy = AutoModelForCausalLM.from_pretrained(model)

    def _checkpoint_engine_weight_iterator(
        self, kv_scales: dict[str, float] | None = None
    ) -> Iterator[tuple[str, torch.Tensor]]:
        assert kv_scales is None  # noqa: S101
        yield from self._policy.state_dict().items()


class Policy:
    """Stands where NeMo-RL's Policy does: a group of workers."""

    def __init__(self, model: str) -> None:
        self.cfg = {"draft": {"enabled": False}}
        self.worker_group = self
        self._workers = [PolicyWorker.remote(rank, model) for rank in range(2)]

    def prepare_refit_info(self) -> dict[str, Any]:
        """Return nothing: tensors say what they are."""
        return {}

    def run_all_workers_single_data(self, method_name: str, **arguments: Any) -> list[Any]:
        """Call a method of all workers."""
        return [getattr(worker, method_name).remote(**arguments) for worker in self._workers]


@ray.remote
class Countdown:
    """An environment of one turn that rewards responses which give an answer."""

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> tuple[Any, ...]:
        """Return NeMo-RL's EnvironmentReturn: observations, metadata, stop strings, rewards, ends and answers."""
        rewards = torch.tensor([float("Answer" in log[-1]["content"]) for log in message_log_batch])
        count = len(message_log_batch)
        ended = [{"role": "environment", "content": " ."}] * count
        return ended, metadata, [None] * count, rewards, torch.ones(count), None


def config_of(endpoint: str, **changes: Any) -> dict[str, Any]:
    """Return `policy.generation` as NeMo-RL has it, with what the suite needs changed."""
    return {
        "backend": "vllm", "max_new_tokens": 64, "temperature": 1.0, "top_p": 1.0, "top_k": None,
        "stop_token_ids": None, "stop_strings": None, "colocated": {"enabled": False}, "_pad_token_id": 0,
        "vllm_cfg": {"async_engine": True, "max_model_len": 2048, "logprobs_mode": "processed_logprobs"},
        "refit_transport": TRANSPORT, "refit_cfg": {TRANSPORT: {"endpoint": endpoint}},
    } | changes  # fmt: skip


def batch_of(tokenizer: Any) -> Any:
    """Return a batch of NeMo-RL's: each prompt as often as it has samples."""
    texts = [text for text in PROMPTS for _ in range(SAMPLES)]
    logs = [
        [{"role": "user", "content": text, "token_ids": torch.tensor(tokenizer(text)["input_ids"])}] for text in texts
    ]
    return BatchedDataDict({
        "message_log": logs, "task_name": ["countdown"] * len(logs), "extra_env_info": [{} for _ in logs],
        "loss_multiplier": torch.ones(len(logs)), "idx": list(range(len(logs))),
    })  # fmt: skip


def rolled_out(run: Any, generation: TltGeneration, tokenizer: Any, environment: Any) -> list[int]:
    """Run one of NeMo-RL's rollouts; check what its loss would receive, and return the lengths of the responses."""
    tokenizer.pad_token_id = generation.cfg["_pad_token_id"]
    batch, _ = run(generation, batch_of(tokenizer), tokenizer, {"countdown": environment}, 2048, 1)
    answers = [next(one for one in log if one["role"] == "assistant") for log in batch["message_log"]]
    for answer in answers:
        assert len(answer["token_ids"]) == len(answer["generation_logprobs"]) > 0  # noqa: S101
        assert (answer["generation_logprobs"] <= 0).all()  # noqa: S101
    assert batch["total_reward"].shape == (len(answers),)  # noqa: S101
    return [len(answer["token_ids"]) for answer in answers]


def main(endpoint: str, model: str) -> None:
    """Run all and check it."""
    require_compatible()
    actor: Any = Countdown  # Ray has replaced the class
    tokenizer, environment = AutoTokenizer.from_pretrained(model), actor.remote()
    generation = TltGeneration(None, config_of(endpoint))
    synchronizer: Any = TltWeightSynchronizer(Policy(model), generation)
    synchronizer.init_communicator()
    before = int(synchronizer.sync_weights(timer=Timer())["policy_version"])
    lengths = rolled_out(run_multi_turn_rollout, generation, tokenizer, environment)
    alone = rolled_out(run_async_multi_turn_rollout, generation, tokenizer, environment)
    long = TltGeneration(None, config_of(endpoint, max_new_tokens=NEW_TOKENS, ignore_eos=True))
    found: list[list[int]] = []
    rollout = threading.Thread(
        target=lambda: found.append(rolled_out(run_async_multi_turn_rollout, long, tokenizer, environment)),
        daemon=True,  # one that hangs keeps no program running
    )
    rollout.start()
    time.sleep(1.5)
    after = int(synchronizer.sync_weights(timer=Timer())["policy_version"])
    assert rollout.is_alive(), "the update came after the responses"  # noqa: S101
    rollout.join(LAST_S)
    if rollout.is_alive():
        faulthandler.dump_traceback(all_threads=True)
        raise SystemExit(
            f"the last rollout has not ended {LAST_S:.0f} s after the update; above: what each thread does"
        )
    assert found == [[NEW_TOKENS] * len(lengths)]  # noqa: S101
    assert after == before + 1  # noqa: S101
    for each in (generation, long):
        each.shutdown()
    print(
        f"result: synchronous rollouts of {lengths} tokens, asynchronous ones of {alone}; {len(lengths)} times "
        f"{NEW_TOKENS} tokens, during which version {after} came after {before}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        main(options.endpoint, options.model)
    finally:
        ray.shutdown()

"""SkyRL's fully asynchronous trainer on the suite: generator, staleness control, and weights after each step."""

import argparse
import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import skyrl_gym
from safetensors.torch import load_file, save_file
from skyrl.backends.skyrl_train.inference_servers.remote_inference_client import RemoteGenerateClient
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.entrypoints.main_base import BasePPOExp, validate_cfg
from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from transformers import AutoTokenizer

from tlt_suite.skyrl import CheckpointWeights

TEMPLATE = "<bos>{% for message in messages %} {{ message.content }}{% endfor %}"
ENVIRONMENT = "answers"
STEPS, GROUPS, SAMPLES, STALENESS = 3, 2, 2, 1
NEW_TOKENS = 1500


class Answers(BaseTextEnv):  # type: ignore[misc]
    """One turn; the reward is whether the response gives an answer."""

    def __init__(self, env_config: Any = None, extras: Any = None) -> None:
        del env_config, extras
        super().__init__()

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Judge the response."""
        return BaseTextEnvStepOutput(observations=[], reward=float("Answer" in action), done=True, metadata={})


class Policy:
    """Stands where SkyRL's learner does, which needs CUDA: its weights are those of a checkpoint, a little scaled."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self.saved = 0

    def save_hf_model(self, name: str, directory: str, tokenizer: Any) -> None:
        """Write the weights of the next step, as a learner does."""
        assert name == "policy"  # noqa: S101
        self.saved += 1
        shutil.copytree(self._checkpoint, directory)
        weights = load_file(Path(directory) / "model.safetensors")
        scaled = {key: tensor * (1 + self.saved * 2**-10) for key, tensor in weights.items()}
        save_file(scaled, Path(directory) / "model.safetensors", metadata={"format": "pt"})
        tokenizer.save_pretrained(directory)

    def get_lcm_dp_size(self) -> int:
        """Data-parallel ranks to pad batches for."""
        return 1

    def get_timing_metrics(self) -> dict[str, float]:
        """Nothing was timed."""
        return {}

    def finalize_pending_saves(self, name: str) -> None:
        """Nothing is pending."""


class Trainer(CheckpointWeights, FullyAsyncTrainerSim):  # type: ignore[misc]
    """SkyRL's trainer without a learner. It records what a learner would receive."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.dispatch = Policy(Path(self.cfg.trainer.policy.model.path))
        self.batches: list[Any] = []
        self.staleness: list[float] = []

    async def _run_training(self, training_input: Any) -> Any:
        self.batches.append(training_input)
        self.staleness.append(self.all_metrics["async/staleness_max"])
        return await super()._run_training(training_input)


class Experiment(BasePPOExp):  # type: ignore[misc]
    """Like SkyRL's own experiments, whose `run` imports the learners."""

    def get_train_dataset(self) -> PromptDataset:
        """Read the prompts in this process."""
        return PromptDataset(
            self.cfg.data.train_data, self.tokenizer, self.cfg.trainer.max_prompt_length, num_workers=1
        )

    def played(self) -> Trainer:
        """Train and return the trainer."""
        client = self.get_inference_client()
        trainer = Trainer(
            cfg=self.cfg, tracker=self.get_tracker(), tokenizer=self.tokenizer, train_dataset=self.train_dataset,
            eval_dataset=None, inference_engine_client=client, colocate_pg=None,
            generator=self.get_generator(self.cfg, self.tokenizer, client),
        )  # fmt: skip
        asyncio.run(trained(trainer))
        return trainer


async def trained(trainer: Trainer) -> None:
    """Run SkyRL's loop and leave its client's event loop without open connections."""
    try:
        await trainer.train()
    finally:
        await trainer.inference_engine_client.aclose()


async def interrupted(trainer: Trainer, http: str, prompt: list[int]) -> list[Any]:
    """Update the weights while SkyRL's client generates; return which weights made which tokens."""
    client = RemoteGenerateClient(proxy_url=http)
    sampling = {"max_tokens": NEW_TOKENS, "min_tokens": 1, "temperature": 1.0, "logprobs": 1, "ignore_eos": True}
    name = trainer.cfg.trainer.policy.model.path
    try:
        generating = asyncio.create_task(
            client.generate(prompt_token_ids=prompt, sampling_params=sampling, session_id="rollout", model=name)
        )
        await asyncio.sleep(1.5)
        await trainer.publish()
        response = await generating
    finally:
        await client.aclose()
        await trainer.inference_engine_client.aclose()
    assert len(response.response_ids) == len(response.response_logprobs) == NEW_TOKENS  # noqa: S101
    spans: list[Any] = response.raw_response["choices"][0]["weight_versions"]
    return spans


def prepared(model: Path, directory: Path) -> Path:
    """Copy the checkpoint, with a chat template, and write prompts next to it; return the copy."""
    copied = directory / model.resolve().name
    shutil.copytree(model, copied)
    tokenizer = AutoTokenizer.from_pretrained(copied)
    tokenizer.chat_template = TEMPLATE  # the checkpoint has none
    tokenizer.save_pretrained(copied)
    rows = [
        {"prompt": [{"role": "user", "content": f"Numbers 2 5 7 . Target {10 + n} ."}], "env_class": ENVIRONMENT}
        for n in range(STEPS * GROUPS)
    ]
    (directory / "prompts.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return copied


def settings(http: str, model: Path, prompts: Path) -> SkyRLTrainConfig:
    """Return SkyRL's configuration with the overrides that a training run would have."""
    config = SkyRLTrainConfig.from_cli_overrides({
        "data.dataloader.num_workers": 0, "data.dataloader.persistent_workers": False,
        "data.train_data": [str(prompts)],
        "data.val_data": [], "environment.env_class": ENVIRONMENT,
        "generator.batched": False, "generator.n_samples_per_prompt": SAMPLES,
        "generator.inference_engine.enable_ray_prometheus_stats": False,
        "generator.inference_engine.external_proxy_url": http,
        "generator.inference_engine.run_engines_locally": False,
        "generator.sampling_params.max_generate_length": 64, "generator.sampling_params.logprobs": 1,
        "trainer.algorithm.advantage_estimator": "grpo", "trainer.algorithm.policy_loss_type": "rollout_is",
        "trainer.ckpt_interval": -1, "trainer.enable_ray_gpu_monitor": False, "trainer.epochs": 1,
        "trainer.eval_before_train": False,
        "trainer.eval_interval": 0, "trainer.export_path": str(prompts.parent / "export"),
        "trainer.fully_async.enabled": True, "trainer.fully_async.max_staleness_steps": STALENESS,
        "trainer.fully_async.num_parallel_generation_workers": GROUPS * (STALENESS + 1),
        "trainer.fully_async.simulate_training": True, "trainer.fully_async.simulate_training_step_seconds": 0.5,
        "trainer.hf_save_interval": -1, "trainer.logger": "console", "trainer.max_prompt_length": 64,
        "trainer.placement.colocate_all": False, "trainer.policy.model.path": str(model),
        "trainer.policy_mini_batch_size": GROUPS, "trainer.resume_mode": "none", "trainer.train_batch_size": GROUPS,
    })  # fmt: skip
    validate_cfg(config)
    return config


def main(http: str, model: Path) -> None:
    """Run both and check what a learner would receive."""
    skyrl_gym.register(id=ENVIRONMENT, entry_point=Answers)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        copied = prepared(model, directory)
        Trainer.checkpoints = str(directory / "weights")
        trainer = Experiment(settings(http, copied, directory / "prompts.jsonl")).played()
        spans = asyncio.run(interrupted(trainer, http, trainer.tokenizer("Numbers 2 5 7 . Target 14 .")["input_ids"]))
    assert len(trainer.batches) == STEPS  # noqa: S101
    assert max(trainer.staleness) <= STALENESS  # noqa: S101
    for batch in trainer.batches:
        assert len(batch["sequences"]) == GROUPS * SAMPLES  # noqa: S101
        sampled = batch["loss_mask"].bool()
        assert sampled.any(dim=1).all()  # noqa: S101
        assert (batch["rollout_logprobs"][sampled] <= 0).all()  # noqa: S101
        assert (batch["rollout_logprobs"][sampled] < 0).any()  # noqa: S101
    updates = trainer.dispatch.saved
    assert updates == STEPS + 2  # noqa: S101 - before the first step, after each, and amid the last response
    assert len(spans) == 2, f"the update came before or after the response: {spans}"  # noqa: S101
    first, second = (int(span["version"]) for span in spans)
    assert second == first + 1  # noqa: S101
    print(
        f"result: {STEPS} steps of {GROUPS * SAMPLES} samples, staleness at most {max(trainer.staleness):.0f} of "
        f"{STALENESS}, {updates} updates; {spans[0]['end']} tokens before the last and {spans[1]['end']} in all"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    main(options.http, options.model)

"""verl's own rollout code on the suite: an agent loop, then weights that arrive amid a response; verl resubmits it."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import ray
import verl
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl import DataProto
from verl.checkpoint_engine import CheckpointEngineManager, CheckpointEngineRegistry
from verl.experimental.agent_loop import AgentLoopWorker
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerManager

HERE = Path(__file__).resolve().parent
ROLLOUT = "actor_rollout_ref.rollout"
TEMPLATE = "{% for message in messages %}<bos> {{ message.content }}{% endfor %}"
PROMPTS = ("Numbers 2 5 7 . Target 14 .", "Numbers 3 4 6 . Target 18 .")
STEP = 7
NEW_TOKENS = 1500


class Learner(Worker):  # type: ignore[misc]
    """Stands where verl's actor does, which needs CUDA, and calls the checkpoint engine as that one does."""

    def __init__(self, model: str, backend: str, options: dict[str, Any]) -> None:
        super().__init__()
        self._policy = AutoModelForCausalLM.from_pretrained(model)
        self._engine = CheckpointEngineRegistry.new(backend, is_master=self.rank == 0, bucket_size=1 << 20, **options)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)  # type: ignore[untyped-decorator]
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> Any:
        """Send the weights."""
        del mode
        return await self._engine.send_weights(iter(self._policy.state_dict().items()), global_steps=global_steps)

    @register(dispatch_mode=Dispatch.DP_COMPUTE, blocking=False)  # type: ignore[untyped-decorator]
    def execute_checkpoint_engine(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Take part in the steps of an update."""
        return getattr(self._engine, method)(*args, **kwargs)


def config_of(model: Path, endpoint: str) -> DictConfig:
    """Return verl's configuration with the overrides that a training run would have."""
    overrides = [
        f"actor_rollout_ref.model.path={model.resolve()}", f"{ROLLOUT}.name=tlt", f"{ROLLOUT}.nnodes=1",
        f"{ROLLOUT}.n_gpus_per_node=1", f"{ROLLOUT}.tensor_model_parallel_size=1", f"{ROLLOUT}.prompt_length=64",
        f"{ROLLOUT}.response_length=64", f"{ROLLOUT}.calculate_log_probs=True",
        f"{ROLLOUT}.router_config_path={HERE / 'router.yaml'}", f"{ROLLOUT}.checkpoint_engine.backend=tlt",
        f"+{ROLLOUT}.checkpoint_engine.engine_kwargs.tlt.endpoint='{endpoint}'",
    ]  # fmt: skip
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config"), version_base=None):
        config = compose("ppo_trainer", overrides)
    config.actor_rollout_ref.model.custom_chat_template = TEMPLATE  # the checkpoint has none
    return config


async def looped(config: DictConfig, servers: LLMServerManager) -> list[int]:
    """Run verl's single-turn agent loop; return the lengths of the responses."""
    worker = AgentLoopWorker(config, servers.get_client())
    messages = np.empty(len(PROMPTS), dtype=object)
    messages[:] = [[{"role": "user", "content": text}] for text in PROMPTS]
    batch = DataProto.from_dict(non_tensors={"raw_prompt": messages}, meta_info={"global_steps": 0})
    done = (await worker.generate_sequences(batch)).batch
    sampled = done["response_mask"].bool()
    assert sampled.any(dim=1).all()  # noqa: S101
    assert (done["rollout_log_probs"][sampled] <= 0).all()  # noqa: S101
    assert not done["rollout_log_probs"][~sampled].any()  # noqa: S101
    return [int(count) for count in sampled.sum(dim=1)]


async def interrupted(servers: LLMServerManager, manager: CheckpointEngineManager, prompt: list[int]) -> Any:
    """Have verl update the weights while its client generates; return the response."""
    client = servers.get_client(client_cls=FullyAsyncLLMServerClient)
    sampling = {"temperature": 1.0, "max_tokens": NEW_TOKENS, "ignore_eos": True, "logprobs": True}
    generating = asyncio.create_task(client.generate("conversation", prompt_ids=prompt, sampling_params=sampling))
    await asyncio.sleep(1.5)
    metrics = await asyncio.to_thread(manager.update_weights, STEP)
    assert metrics["rollout/policy_version"] >= STEP  # noqa: S101
    return await generating


async def main(endpoint: str, model: Path) -> None:
    """Run both and check what the learner would receive."""
    config = config_of(model, endpoint)
    servers = await LLMServerManager.create(config=config)
    settings = omega_conf_to_dataclass(config.actor_rollout_ref.rollout.checkpoint_engine)
    learner = RayWorkerGroup(
        resource_pool=RayResourcePool([1], use_gpu=False, max_colocate_count=1),
        ray_cls_with_init=RayClassWithInitArgs(
            cls=ray.remote(Learner), model=str(model), backend="tlt", options=settings.engine_kwargs["tlt"]
        ),
        use_gpu=False,
        device_name="cpu",
    )
    manager = CheckpointEngineManager(config=settings, actor_wg=learner, replicas=servers.get_replicas())
    await asyncio.to_thread(manager.update_weights, STEP - 1)  # as verl's trainers do before the first step
    lengths = await looped(config, servers)
    prompt = AutoTokenizer.from_pretrained(model)(f"<bos> {PROMPTS[0]}")["input_ids"]
    response = await interrupted(servers, manager, prompt)
    assert len(response.token_ids) == len(response.log_probs) == NEW_TOKENS  # noqa: S101
    steps = (response.extra_fields["min_global_steps"], response.extra_fields["max_global_steps"])
    assert steps == (STEP - 1, STEP), "the update came before or after the response"  # noqa: S101
    print(f"result: 2 agent loops of {lengths} tokens; {NEW_TOKENS} tokens, resubmitted by verl, of steps {steps}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        asyncio.run(main(options.endpoint, options.model))
    finally:
        ray.shutdown()

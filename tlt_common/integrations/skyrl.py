"""
Weight transfer for SkyRL's trainers (written for SkyRL 0.4.0), through checkpoints that the suite's workers load.

    class Trainer(CheckpointWeights, FullyAsyncRayPPOTrainer):
        checkpoints = "/shared/weights"

SkyRL's own ways of sending weights end in vLLM's processes. Its client needs no adapter: see the example 10_skyrl.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any, ClassVar

from tlt_common.errors import InvalidRequestError


class CheckpointWeights:
    """
    A mixin for SkyRL's trainers, listed before them: each update writes a checkpoint that all workers load. If the
    policy is trained with LoRA, that is the adapter only, which SkyRL's requests name.

    All workers switch to the new weights, or none if the update fails, which raises in the trainer. Responses that are
    running continue with the new weights. Only the last two checkpoints are kept, unless they are in an object store.
    """

    checkpoints: ClassVar[str] = ""
    """Directory shared by the trainer and the suite's workers, or a URI that both can access."""
    adapter_name: ClassVar[str] = "skyrl-lora"
    """SkyRL's name of its adapter (`SKYRL_LORA_ADAPTER_NAME`)."""
    cfg: Any
    dispatch: Any
    inference_engine_client: Any
    tokenizer: Any
    _kept: tuple[str, ...] = ()

    def init_weight_sync_state(self) -> None:
        """
        Make the trainer send its weights through checkpoints.

        Raises:
            InvalidRequestError: `checkpoints` is empty, or Megatron trains an adapter that it does not merge.
        """
        if not self.checkpoints:
            raise InvalidRequestError("checkpoints is empty; accepted: a directory or URI", field="checkpoints")
        if self._has_adapter and self.cfg.trainer.strategy == "megatron":
            raise InvalidRequestError("merge_lora is False; accepted with Megatron: True", field="merge_lora")
        self.dispatch.save_weights_for_sampler = self.publish

    async def publish(self, model_id: str | None = None) -> None:
        """
        Write the policy's weights and return once all workers serve them.

        Raises:
            InvalidRequestError: One of several adapters is named.
        """
        if model_id is not None:
            raise InvalidRequestError(
                f"model_id is {model_id!r}, but one adapter at a time is served; omit it", field="model_id"
            )
        client = self.inference_engine_client
        # Not SkyRL's own count, which begins again with each run: the fleet may serve a later version.
        served = await client._call_all_servers("/get_weight_version", method="GET")  # noqa: SLF001
        version = 1 + max(int(answer["body"]["weight_version"]) for answer in served.values())
        directory = f"{self.checkpoints.rstrip('/')}/version-{version}"
        await asyncio.to_thread(self.dispatch.save_hf_model, "policy", directory, self.tokenizer)
        if self._has_adapter:
            await client.load_lora_adapter(self.adapter_name, directory)
        else:
            await client.fetch_weights(target_version=version, uri=directory)
        client.increment_weight_version()
        await asyncio.to_thread(self._keep, directory)

    @property
    def _has_adapter(self) -> bool:
        """Whether the checkpoints that SkyRL saves are those of an adapter."""
        policy = self.cfg.trainer.policy
        if policy.model.lora.rank <= 0:
            return False
        return not (self.cfg.trainer.strategy == "megatron" and policy.megatron_config.lora_config.merge_lora)

    def _keep(self, directory: str) -> None:
        """
        Delete all but the last two checkpoints. Workers that join late load the last one; some may still be reading the
        one before.
        """
        *old, before, last = ("", *self._kept, directory)
        for each in old:
            if each and "://" not in each:
                shutil.rmtree(Path(each), ignore_errors=True)
        self._kept = tuple(name for name in (before, last) if name)

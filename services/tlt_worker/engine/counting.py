"""
`python -m tlt_worker.engine.counting DTYPE FOLDER...`: prints SGLang's memory for models and their drafters.

Builds SGLang's own classes without memory (on torch's meta device), for one rank, from FOLDER/model/config.json and
FOLDER/drafter/config.json, with FOLDER/drafter/shared.json.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tlt_worker.checkpoints.drafter import SHARED_FILE
from tlt_worker.engine.device import detect
from tlt_worker.link.settings import MODELS_PACKAGE


def main(dtype: str, folders: Sequence[str]) -> None:
    """Write a line of JSON for each folder to standard output."""
    device = detect()
    os.environ.update(device.variables() | {"SGLANG_EXTERNAL_MODEL_PACKAGE": MODELS_PACKAGE})
    device.enter()
    from tlt_common import mimo

    mimo.register()
    for folder in map(Path, folders):
        sys.stdout.write(json.dumps(_counted(folder / "model", folder / "drafter", dtype)) + "\n")


def _counted(model: Path, drafter: Path, dtype: str) -> dict[str, int]:
    """Return the bytes of weights and drafter, and of one token in the KV cache."""
    policy = _built(model, dtype)
    layer = _built(drafter, dtype)
    shared = tuple(json.loads((drafter / SHARED_FILE).read_text()))
    own = {name: each for name, each in layer.named_parameters() if not name.endswith(shared)}
    element = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    return {
        "weights": _bytes(dict(policy.named_parameters())),
        "drafter": _bytes(own),
        "KV cache per token": (_kv_elements(policy) + _kv_elements(layer)) * element,
    }


def _built(directory: Path, dtype: str) -> Any:
    """Return SGLang's model for a config.json, built without allocating memory."""
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.distributed import parallel_state
    from sglang.srt.model_loader.loader import _initialize_model
    from sglang.srt.model_loader.utils import set_default_torch_dtype
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    args = ServerArgs(model_path=str(directory), device=detect().kind, dtype=dtype, skip_tokenizer_init=True)
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=0))
    if not parallel_state.model_parallel_is_initialized():
        meeting = Path(tempfile.mkdtemp(prefix="tlt-counting-")) / "group"
        parallel_state.init_distributed_environment(
            world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=f"file://{meeting}"
        )
        parallel_state.initialize_model_parallel(backend="gloo")
    config = ModelConfig.from_server_args(args)
    with set_default_torch_dtype(config.dtype), torch.device("meta"):
        return _initialize_model(config, LoadConfig())


def _bytes(parameters: dict[str, Any]) -> int:
    return sum(each.numel() * each.element_size() for each in parameters.values())


def _kv_elements(model: Any) -> int:
    from sglang.srt.layers.radix_attention import RadixAttention

    layers = [each for each in model.modules() if isinstance(each, RadixAttention)]
    return sum(each.tp_k_head_num * each.qk_head_dim + each.tp_v_head_num * each.v_head_dim for each in layers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

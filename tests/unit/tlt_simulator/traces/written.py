"""Logs that tests write."""

import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

SAMPLES = Path(__file__).parent / "samples"
WORDS = "xyzzy plugh"
"""Part of every text in hostile logs: it may be nowhere but there."""


def json_lines(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tokenizer(directory: Path) -> str:
    """A tokenizer for which each word is a token."""
    made = Tokenizer(WordLevel({"[UNK]": 0}, "[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.save(str(directory / "tokenizer.json"))
    return str(directory)


def torch_saved(path: Path, values: Any) -> Path:
    """A file as `torch.save` writes it, of plain values."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", pickle.dumps(values, protocol=2))
    return path

"""Logs for `tlt simulate` that are damaged, contradict themselves, or stand for more than they are."""

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from tests.hostile.log import Log

SAMPLES = Path(__file__).parents[2] / "unit/tlt_simulator/traces/samples"
DAMAGED = {
    "lengths": "lengths/lengths.jsonl", "csv": "lengths/lengths.csv", "mooncake": "mooncake/trace.jsonl",
    "servegen": "servegen/trace_d.jsonl", "slime": "slime/0.pt", "verl": "verl/1.jsonl",
    "trl": "trl/completions_00010.parquet", "prime-rl": "prime-rl/rollouts/step_1/train/all/traces.jsonl",
    "nemo-rl": "nemo-rl/train_data_step1.jsonl", "areal": "areal/3/11.jsonl", "verifiers": "verifiers/results.jsonl",
    "skyrl": "skyrl/dumped_evals/global_step_5_evals/gsm8k.jsonl", "burstgpt": "burstgpt/BurstGPT_1.csv",
    "azure": "azure/AzureLLMInferenceTrace_conv.csv", "wandb": "wandb/lengths/rollouts_1_aa.table.json",
}  # fmt: skip
VALUES = (
    "null", "-1", "0", "NaN", "1e999", "1" + "0" * 30, "true", '""', '"\\ud800"', "[]", "{}", "[[1]]", '{"a": {}}',
    "0.5", '"' + "9" * 5000 + '"',
)  # fmt: skip
"""Put in the place of each field's value, as JSON."""
DAMAGE: Mapping[str, Callable[[bytes], bytes]] = {
    "a third of it": lambda content: content[: len(content) // 3],
    "without its end": lambda content: content[:-3],
    "without its beginning": lambda content: content[5:],
    "zeros at its end": lambda content: content + bytes(100),
    "zeros within": lambda content: content[:20] + bytes(20) + content[40:],
    "twice": lambda content: content + content,
    "a bit changed": lambda content: content[:30] + bytes([content[30] ^ 0x80]) + content[31:],
    "as UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "gzip, cut": lambda content: gzip.compress(content)[:-12],
    "gzip of gzip": lambda content: gzip.compress(gzip.compress(content)),
    "zstd, cut": lambda content: zstandard.compress(content)[:-6],
    "as one line": lambda content: content.replace(b"\n", b" "),
    "with a line of zeros": lambda content: content.replace(b"\n", b"\n" + bytes(50) + b"\n", 1),
    "nothing": lambda _: b"",
}


def _one(name: str, content: bytes) -> Mapping[str, bytes]:
    return {name: content}


def _damaged() -> Iterator[Log]:
    for form, sample in DAMAGED.items():
        path = SAMPLES / sample
        for how, damage in DAMAGE.items():
            make = partial(_one, path.name, damage(path.read_bytes()))
            yield Log(name=f"{form}, {how}", files=make)
            if how in {"nothing", "a bit changed", "a third of it"}:
                named = None if form == "csv" else form
                yield Log(name=f"{form} by name, {how}", files=make, form=named or "lengths")


def _changed() -> Iterator[Log]:
    """Every field of the first line with each value, also of objects within."""
    for form, sample in DAMAGED.items():
        path = SAMPLES / sample
        if path.suffix != ".jsonl":
            continue
        first, *rest = path.read_text().splitlines()
        for field in json.loads(first):
            for number, value in enumerate(VALUES):
                values = {**json.loads(first), field: "TLT-MARK"}
                line = json.dumps(values).replace('"TLT-MARK"', value)
                content = "\n".join([line, *rest, ""]).encode()
                yield Log(name=f"{form} {field} {number}", files=partial(_one, path.name, content), form=form)


def _pickled(values: Any) -> bytes:
    return _torch_file(pickle.dumps(values, protocol=2))


def _torch_file(pickled: bytes, *, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("0/data.pkl", pickled)
    return buffer.getvalue()


def _sample(**changes: Any) -> dict[str, Any]:
    return {
        "group_index": 0, "prompt": "p", "tokens": [1, 2, 3], "response_length": 2, "status": "completed", **changes,
    }  # fmt: skip


def _doubled(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found, found]
    return found


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def _slime(**changes: Any) -> Mapping[str, bytes]:
    return {"0.pt": _pickled({"rollout_id": 0, "samples": [_sample(**changes)]})}


def _empty_lines() -> Mapping[str, bytes]:
    return {"log.jsonl.gz": gzip.compress(b"\n" * 2**24) * 256}  # 4 GiB


def _zstd_lines(line: bytes) -> Mapping[str, bytes]:
    return {"log.jsonl.zst": zstandard.compress(line * 2**20) * 512}


def _gzip_of(begin: bytes, fill: bytes, count: int) -> Mapping[str, bytes]:
    return {"log.jsonl.gz": gzip.compress(begin + fill * count)}


def _memo_of(place: int) -> Mapping[str, bytes]:
    return {"0.pt": _torch_file(b"\x80\x02]r" + place.to_bytes(4, "little") + b".")}


def _length_of(opcode: bytes, size: int, width: int) -> Mapping[str, bytes]:
    return {"0.pt": _torch_file(b"\x80\x04" + opcode + size.to_bytes(width, "little") + b"x.")}


_BOMBS = (
    Log(name="4 GiB of empty lines in gzip", files=_empty_lines, form="lengths", says="empty ones", apart=True),
    Log(name="empty lines in zstd", files=partial(_zstd_lines, b"\n"), form="lengths", says="empty ones", apart=True),
    Log(name="zeros in zstd", files=partial(_zstd_lines, bytes(1)), form="lengths", says="more than 64 MiB", apart=True),
    Log(name="a line of zeros in gzip", files=partial(_gzip_of, b"", bytes(1), 2**27), form="lengths", says="more than 64 MiB", apart=True),
    Log(name="a whole number of 60 MB", files=lambda: {"log.jsonl": b'{"prompt": 1, "tokens": 1' + b"0" * 60_000_000 + b"}\n"}, says="not JSON", apart=True),
    Log(name="a fraction of 60 MB", files=lambda: {"log.jsonl": b'{"prompt": 1, "tokens": 0.' + b"1" * 60_000_000 + b"}\n"}, says="tokens is 0.1", apart=True),
    Log(name="a number of 60 MB that nobody reads", files=lambda: {"1.jsonl": b'{"input": "a", "output": "b", "gts": "", "step": 1, "score": 1.' + b"0" * 60_000_000 + b"}\n"}, form="verl", says="tokenizer", apart=True),
    Log(name="lists of 60 MB", files=lambda: {"log.jsonl": b"[" * 60_000_000}, form="lengths", says="not JSON", apart=True),
    Log(name="objects of 60 MB", files=lambda: {"log.jsonl": b'{"a": [' + b"{}," * 20_000_000 + b"{}]}"}, form="lengths", says="", apart=True),
    Log(name="slime, a zip of zeros", files=lambda: {"0.pt": _torch_file(bytes(2**28), method=zipfile.ZIP_DEFLATED)}, says="compressed", apart=True),
    Log(name="slime, zeros stored, in gzip", files=lambda: {"0.pt.gz": gzip.compress(_torch_file(bytes(2**26)))}, says="damaged", apart=True),
    Log(name="slime, a prompt that doubles", files=partial(_slime, prompt=_doubled(200)), says="too many values", apart=True),
    Log(name="slime, tokens that double", files=partial(_slime, tokens=_doubled(200)), apart=True),
    Log(name="slime, samples that double", files=lambda: {"0.pt": _pickled({"rollout_id": 0, "samples": _doubled(200)})}, says="samples", apart=True),
    Log(name="slime, a prompt that contains itself", files=partial(_slime, prompt=_endless()), says="nested", apart=True),
    Log(name="slime, a mask that doubles", files=partial(_slime, loss_mask=_doubled(60)), says="loss_mask", apart=True),
    *(Log(name=f"slime, a memo of {place}", files=partial(_memo_of, place), says="0.pt", apart=True) for place in (2**20, 2**30, 2**32 - 1)),
    *(
        Log(name=f"slime, opcode {opcode!r} of {size}", files=partial(_length_of, opcode, size, width), says="damaged", apart=True)
        for opcode, width in ((b"\x8e", 8), (b"\x8d", 8), (b"\x96", 8), (b"\x8b", 4), (b"\x95", 8), (b"B", 4), (b"X", 4))
        for size in (2**31 - 2, 2 ** (8 * width - 2))
    ),
)  # fmt: skip

CASES = [*_damaged(), *_changed(), *_BOMBS]

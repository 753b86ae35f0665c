"""Weight files of a directory: those that SGLang reads, or an error if it would read a mixture."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tlt_common.errors import WeightsError, WeightsUnreadableError

INDEX = "model.safetensors.index.json"
MAX_INDEX_BYTES = 100_000_000
_SINGLE = "model.safetensors"
_CONSOLIDATED = "consolidated"
_SHARD = re.compile(r"(.*)-(\d+)-of-(\d+)\.safetensors")
_ENDING = ".safetensors"
_PICKLED = (".bin", ".pt", ".pth")


def weight_files(directory: Path) -> tuple[Path, ...]:
    """
    Return the safetensors files of a checkpoint, sorted by name.

    Raises:
        OSError: The directory cannot be read.
        WeightsError: It is ambiguous which files are weights.
        WeightsUnreadableError: There are none, or one is missing.
    """
    paths = list(directory.iterdir()) if directory.is_dir() else []
    names = [path.name for path in paths]
    if INDEX not in names and not any(name.endswith(_ENDING) for name in names):
        _require_no_subfolder(directory, paths)
    return tuple(directory / name for name in chosen(names, lambda: _head(directory / INDEX), where=str(directory)))


def chosen(names: Collection[str], read_index: Callable[[], bytes], *, where: str) -> list[str]:
    """
    Return the names of the weight files, sorted.

    Args:
        names: All names in the directory.
        read_index: Returns the content of `INDEX`, at most `MAX_INDEX_BYTES` and one more. Called if it is in `names`.
        where: The directory, for messages.

    Raises:
        WeightsError: As for `weight_files`.
    """
    found = sorted(name for name in names if name.endswith(".safetensors") and not name.startswith("."))
    if not found and INDEX not in names:
        pickled = sorted(name for name in names if name.endswith(_PICKLED))
        also = f", only {pickled[0]}; save it with safe_serialization" if pickled else ""
        raise WeightsUnreadableError(f"{where} contains no *.safetensors{also}", field="source.uri")
    if INDEX in names:
        return _indexed(found, read_index(), where)
    return _unindexed(found, where)


def _require_no_subfolder(directory: Path, paths: Sequence[Path]) -> None:
    for folder in sorted(path for path in paths if path.is_dir()):
        if weights := sorted(path.name for path in folder.iterdir() if path.name.endswith((_ENDING, INDEX))):
            raise WeightsUnreadableError(
                f"{directory} contains no *{_ENDING}, and its subfolder {folder.name} has {weights[0]}; accepted: the "
                f"folder with the weights, {folder}",
                field="source.uri",
            )


def _indexed(found: list[str], index: bytes, where: str) -> list[str]:
    try:
        listed = set(json.loads(index)["weight_map"].values()) if len(index) <= MAX_INDEX_BYTES else set()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(
            f"{where}/{INDEX} has no weight_map of file names: {error!r:.200}", field="source.uri"
        ) from None
    if not listed or not all(isinstance(name, str) and name.endswith(".safetensors") for name in listed):
        raise WeightsError(f"{where}/{INDEX} does not list safetensors files in a weight_map", field="source.uri")
    # SGLang would ignore a listed file in a subdirectory.
    if below := sorted(name for name in listed if "/" in name):
        raise WeightsError(
            f"{where}/{INDEX} points to {below[0]}, in a subfolder; accepted: files beside the index. Move them there, "
            "and change its weight_map",
            field="source.uri",
        )
    if missing := sorted(listed.difference(found)):
        raise WeightsUnreadableError(
            f"{where} lacks {missing[0]}, one of {len(missing)} missing of the {len(listed)} files in its "
            f"{INDEX}; add the missing files, or remove the index if a single {_SINGLE} is the whole model",
            field="source.uri",
        )
    return sorted(listed)


def _unindexed(found: list[str], where: str) -> list[str]:
    if len(found) == 1:
        _require_all_shards(found, where)
        return found
    if found == [f"{_CONSOLIDATED}.safetensors", _SINGLE]:  # Mistral's checkpoints have both; SGLang reads the second
        return [_SINGLE]
    if odd := [name for name in found if name == _SINGLE or name.startswith(_CONSOLIDATED)]:
        others = [name for name in found if name != odd[0]]
        raise WeightsError(
            f"{where} contains {odd[0]} and {', '.join(others[:3])}, and no {INDEX} that says which are the weights; "
            "remove the others",
            field="source.uri",
        )
    _require_all_shards(found, where)
    return found


def _require_all_shards(found: list[str], where: str) -> None:
    shards = [match for match in map(_SHARD.fullmatch, found) if match]
    if not shards:
        return
    stem, _, total = shards[0].groups()
    width = len(shards[0][2])
    wanted = [f"{stem}-{number:0{width}}-of-{total}.safetensors" for number in range(1, min(int(total), 10**5) + 1)]
    if missing := sorted(set(wanted).difference(found)):
        raise WeightsUnreadableError(
            f"{where} lacks {missing[0]}, one of {len(missing)} missing shards", field="source.uri"
        )
    if odd := sorted(set(found).difference(wanted)):
        raise WeightsError(
            f"{where} contains {odd[0]} beside the shards {wanted[0]} and following, and no {INDEX} that says which "
            "are the weights",
            field="source.uri",
        )


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(MAX_INDEX_BYTES + 1)

"""
LoRA adapters in PEFT's format: their configuration, and what their tensors change in a checkpoint. Pure.

An adapter is a release like any other, except that its tensors are `adapter_model.safetensors`, and one of them is its
`adapter_config.json`, as bytes. Nothing else of it travels.

Source of names and arithmetic: peft 0.21, `utils/save_and_load.py`, `get_delta_weight` in `tuners/lora/layer.py` and
`merge_safe` in `tuners/lora/variants.py`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.domain.weights import ADAPTER_CONFIG as CONFIG
from tlt_common.domain.weights import NO_ADAPTER
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.checkpoint import entries_in
from tlt_common.weights.experts import parts_of, stack_shape
from tlt_common.weights.safetensors_file import Piece
from tlt_common.weights.tied_head import EMBEDDING, HEAD

MAX_CONFIG_BYTES = 1_000_000
_PREFIX = "base_model.model."
_FACTOR = re.compile(
    r"(?P<module>.+)\.(?P<kind>lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)(?:\.weight)?"
)
_OTHERS = ("lora_", "trainable_tokens_", "ia3_", "prompt_", "vera_", "hada_", "lokr_", "oft_", "boft_")
"""Parts of names that no tensor of a model has, and that belong to adapters that are not merged."""
_FLOATS = frozenset({"BF16", "F16", "F32"})
_READ = frozenset(
    {"alpha_pattern", "base_model_name_or_path", "ensure_weight_tying", "fan_in_fan_out", "lora_alpha", "peft_type"}
    | {"r", "rank_pattern", "use_dora", "use_rslora"}
)
_OF_TRAINING = frozenset(
    {"auto_mapping", "exclude_modules", "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout"}
    | {"megatron_core", "modules_to_save", "peft_version", "qalora_group_size", "revision", "runtime_config"}
    | {"target_modules", "target_parameters", "task_type"}
)
"""Keys that say what is trained, which the tensors' names show, or that do not change what is merged."""
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "bias": ("none",),
    # Others replace the base weights when training begins; what is saved refers to those.
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
    "eva_config": (),
}
"""Accepted values of keys that change what is merged. None, False and empty values are accepted for all keys."""


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """The part of an `adapter_config.json` that determines the merged weights."""

    rank: int  # 0 in that of `NO_ADAPTER` only
    alpha: float
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    is_rank_stabilized: bool = False
    is_dora: bool = False
    is_transposed: bool = False
    """PEFT's `fan_in_fan_out`: the base holds its matrices as [in, out]."""
    ties_embeddings: bool = False
    """PEFT's `ensure_weight_tying`: head and embedding stay one matrix."""
    base_name: str = ""
    """PEFT's `base_model_name_or_path`."""

    @classmethod
    def parse(cls, content: bytes | str) -> "AdapterConfig":
        """
        Read an `adapter_config.json`.

        Raises:
            WeightsError: It is not the configuration of an adapter that is merged exactly; the message names the key.
        """
        if content == NO_ADAPTER:
            return cls(rank=0, alpha=0)
        try:
            found = json_of(content if isinstance(content, bytes) else content.encode())
        except ValueError as error:
            raise WeightsError(f"{CONFIG} is not JSON: {error}", field=CONFIG) from None
        if not isinstance(found, dict):
            raise _refused("", found, "a JSON object")
        _require_merged(found)
        return cls(
            rank=_number(found, "r", 8, whole=True),
            alpha=_number(found, "lora_alpha", 8),
            rank_pattern=_pattern(found, "rank_pattern", whole=True),
            alpha_pattern=_pattern(found, "alpha_pattern"),
            is_rank_stabilized=bool(found.get("use_rslora")),
            is_dora=bool(found.get("use_dora")),
            is_transposed=bool(found.get("fan_in_fan_out")),
            ties_embeddings=bool(found.get("ensure_weight_tying")),
            base_name=str(found.get("base_model_name_or_path") or ""),
        )

    def rank_of(self, module: str) -> int:
        """Return the rank of a module's factors."""
        return int(_matching(self.rank_pattern, module, self.rank))

    def scale_of(self, module: str) -> float:
        """Return the factor of a module's product."""
        alpha, rank = _matching(self.alpha_pattern, module, self.alpha), self.rank_of(module)
        return alpha / (sqrt(rank) if self.is_rank_stabilized else rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The product that is added to one matrix: `scale * B A`, and the rows' lengths with DoRA."""

    a: Piece
    b: Piece
    scale: float
    expert: int | None = None
    """The expert, of `experts`, whose part of the factors counts; None: the factors are of one matrix."""
    experts: int = 1
    rows: tuple[int, int] | None = None
    """Rows of the product that count, if the matrix is a part of a stack's: first and last, exclusive."""
    magnitude: Piece | None = None
    is_embedding: bool = False
    """Factors of an embedding: A is [rank, vocabulary], B is [hidden, rank], and the product is transposed."""
    is_transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an adapter does to one tensor of the base."""

    whole: Piece | None = None
    """Replaces the tensor (`modules_to_save`) before the product is added."""
    factors: Factors | None = None


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter's configuration and the locations of its tensors, by the name in PEFT's files."""

    config: AdapterConfig
    tensors: Mapping[str, Piece]

    @classmethod
    def read(cls, directory: Path) -> "Adapter":
        """
        Read an adapter that PEFT saved, or that was received. Reads headers only.

        Raises:
            WeightsError: It is incomplete, damaged, or of a kind that is not merged exactly.
            WeightsUnreadableError: A file cannot be read.
        """
        try:
            pieces = {piece.name: piece for piece in adapter_entries(directory)}
            content = pieces.pop(CONFIG)
            return cls(config=AdapterConfig.parse(content.read().data), tensors=pieces)
        except OSError as error:
            raise WeightsUnreadableError(f"{directory} cannot be read: {error}") from error

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(piece.length for piece in self.tensors.values())

    def changes(
        self, base: Mapping[str, tuple[int, ...]], *, is_tied: bool = False, transposes_experts: bool = False
    ) -> dict[str, Change]:
        """
        Return what the adapter does to the tensors of a checkpoint, by their names there.

        Args:
            base: Shapes of the base's tensors. Experts may be stacked or individual.
            is_tied: Whether config.json ties the head to the embedding.
            transposes_experts: Whether stacks of experts are [experts, in, out].

        Raises:
            WeightsError: A tensor belongs to no tensor of the base, lacks its other factor, or has another shape.
        """
        return _Reading(self, base, is_tied=is_tied, transposes_experts=transposes_experts).changes()


def adapter_entries(directory: Path) -> tuple[Piece, ...]:
    """
    Return an adapter's tensors and its configuration, whether it is in a file or in a tensor.

    Raises:
        OSError: A file cannot be read.
        WeightsError: The directory has no adapter.
    """
    entries = entries_in(directory)
    if any(entry.name == CONFIG for entry in entries):
        return entries
    file = directory / CONFIG
    if not file.is_file():
        raise WeightsError(f"{directory} contains no {CONFIG}", field=CONFIG)
    size = file.stat().st_size
    if size > MAX_CONFIG_BYTES:
        raise WeightsError(f"{file} has {size} bytes; accepted: at most {MAX_CONFIG_BYTES}", field=CONFIG)
    return (Piece(file=file, position=0, length=size, name=CONFIG, dtype="U8", shape=(size,)), *entries)


class _Reading:
    """Assigns an adapter's tensors to those of a base."""

    def __init__(
        self, adapter: Adapter, base: Mapping[str, tuple[int, ...]], *, is_tied: bool, transposes_experts: bool
    ) -> None:
        self._config = adapter.config
        self._base = base
        self._transposes_experts = transposes_experts
        self._is_tied = is_tied
        self._wholes: dict[str, Piece] = {}
        self._factors: dict[str, dict[str, Piece]] = {}
        for name, piece in adapter.tensors.items():
            self._sort(name, piece)

    def changes(self) -> dict[str, Change]:
        if (has := bool(self._factors or self._wholes)) == (self._config.rank == 0):
            raise WeightsError(f"the adapter has {'tensors' if has else 'no tensor'}", field=CONFIG)
        self._require_tied()
        found: dict[str, Factors] = {}
        for module, parts in self._factors.items():
            for name, factors in self._of(module, parts):
                if name in found:
                    raise WeightsError(f"two modules of the adapter change tensor {name}; accepted: one")
                found[name] = factors
        return {
            name: Change(whole=self._wholes.get(name), factors=found.get(name))
            for name in self._base
            if name in self._wholes or name in found
        }

    def _sort(self, name: str, piece: Piece) -> None:
        if piece.dtype not in _FLOATS:
            raise WeightsError(f"tensor {name} has type {piece.dtype}; accepted: {sorted(_FLOATS)}")
        plain = name.removeprefix(_PREFIX)
        if factor := _FACTOR.fullmatch(plain):
            self._factors.setdefault(factor["module"], {})[factor["kind"]] = piece
            return
        plain = plain.replace(".base_layer.", ".")
        if any(part.startswith(_OTHERS) for part in plain.split(".")):
            raise WeightsError(
                f"tensor {name} is not of a LoRA adapter that is merged; accepted: lora_A, lora_B, "
                "lora_embedding_A, lora_embedding_B and lora_magnitude_vector, and modules_to_save"
            )
        shape = self._base.get(plain)
        if shape is None and plain == HEAD and self._is_tied:
            shape = self._base.get(EMBEDDING)
        if shape is None:
            raise WeightsError(f"tensor {name} of modules_to_save is not in the model")
        if piece.shape != shape:
            raise WeightsError(f"tensor {name} has shape {list(piece.shape)}; the model has {list(shape)}")
        self._wholes[plain] = piece

    def _of(self, module: str, parts: Mapping[str, Piece]) -> Iterable[tuple[str, Factors]]:
        """Yield the tensors that a module's factors change."""
        kinds = ("lora_embedding_A", "lora_embedding_B") if "lora_embedding_A" in parts else ("lora_A", "lora_B")
        for kind in kinds:
            if kind not in parts:
                other = next(iter(parts))
                raise WeightsError(f"the adapter has {other} of {module} and no {kind}; send both")
        magnitude = parts.get("lora_magnitude_vector")
        if (magnitude is not None) != self._config.is_dora:
            has = "has" if magnitude is not None else "has no"
            raise WeightsError(f"use_dora is {self._config.is_dora}, and {module} {has} lora_magnitude_vector")
        factors = Factors(
            a=parts[kinds[0]],
            b=parts[kinds[1]],
            scale=self._config.scale_of(module.replace(".base_layer", "")),
            magnitude=magnitude,
            is_embedding=kinds[0] != "lora_A",
            is_transposed=self._config.is_transposed,
        )
        name = f"{module}.weight"
        if (shape := self._base.get(name)) is not None and len(shape) == 2:
            self._require_shapes(module, factors, shape)
            return [(name, factors)]
        return self._stacked(module, factors)

    def _require_shapes(self, module: str, factors: Factors, shape: tuple[int, ...]) -> None:
        rows, columns = shape if not factors.is_transposed else (shape[1], shape[0])
        rank = self._config.rank_of(module)
        wanted = (rank, columns), (rows, rank)
        if factors.is_embedding:
            wanted = (rank, rows), (columns, rank)
        for piece, expected in zip((factors.a, factors.b), wanted, strict=True):
            if piece.shape != expected:
                raise WeightsError(
                    f"tensor {piece.name} has shape {list(piece.shape)}; accepted: {list(expected)}, of rank {rank} "
                    f"for a matrix of {list(shape)}"
                )
        if factors.magnitude is not None and factors.magnitude.shape not in {(rows,), (1, rows)}:
            raise WeightsError(
                f"tensor {factors.magnitude.name} has shape {list(factors.magnitude.shape)}; accepted: [{rows}]"
            )

    def _stacked(self, module: str, factors: Factors) -> Iterable[tuple[str, Factors]]:
        """
        Yield the experts that factors of a whole stack change (PEFT's `target_parameters`).

        PEFT names the module, not the parameter: which of them it is follows from the shapes.
        """
        experts = module.replace(".base_layer", "")
        for name in (f"{experts}.gate_up_proj", f"{experts}.down_proj"):
            shape = self._base.get(name) or stack_shape(name, self._base)
            if shape is None or len(shape) != 3:
                continue
            count, rows, columns = shape
            rank = self._config.rank_of(experts)
            ins, outs = (rows, columns) if self._transposes_experts else (columns, rows)
            if (factors.a.shape, factors.b.shape) != ((rank * count, ins), (outs, rank * count)):
                continue
            if factors.magnitude is not None or factors.is_transposed:
                raise WeightsError(f"{module} is a stack of experts with use_dora or fan_in_fan_out; accepted: neither")
            yield from self._each_expert(name, shape, factors)
            return
        raise WeightsError(
            f"{factors.a.name} {list(factors.a.shape)} and {factors.b.name} {list(factors.b.shape)} belong to no "
            f"tensor of the model: there is no {module}.weight of such a shape, and no stack of experts"
        )

    def _each_expert(self, name: str, shape: tuple[int, ...], factors: Factors) -> Iterable[tuple[str, Factors]]:
        count, rows, _ = shape
        if name in self._base:
            yield name, replace(factors, experts=count, is_transposed=self._transposes_experts)
            return
        parts = list(parts_of(name, shape))
        each = len(parts) // count
        for place, part in enumerate(parts):
            within = place % each * (rows // each)
            span = (within, within + rows // each)
            yield part, replace(factors, experts=count, expert=place // each, rows=span)

    def _require_tied(self) -> None:
        """
        Refuse to change a tied matrix in one of its places: PEFT trains that one, and merging changes both.

        With `ensure_weight_tying`, PEFT trains both alike; the embedding's part is merged.
        """
        names = (*(f"{module}.weight" for module in self._factors), *self._wholes)
        touched = next((name for name in names if name.endswith((HEAD, "embed_tokens.weight"))), None)
        if touched is None or not self._is_tied:
            return
        if not self._config.ties_embeddings:
            raise WeightsError(
                f"the adapter changes {touched}, and config.json ties head and embedding: PEFT trains one of them, and "
                "merging would change both. Accepted: ensure_weight_tying, or other modules",
                field=CONFIG,
            )
        self._factors.pop(HEAD.removesuffix(".weight"), None)
        self._wholes.pop(HEAD, None)


def _require_merged(found: Mapping[str, Any]) -> None:
    kind = str(found.get("peft_type") or "").removeprefix("PeftType.")
    if kind != "LORA":
        raise _refused("peft_type", found.get("peft_type"), "'LORA'")
    for key, value in found.items():
        if key in _READ | _OF_TRAINING or value is None or value is False or value in ("", [], {}):
            continue
        if (accepted := _NEUTRAL.get(key)) == () or (accepted is not None and value in accepted):
            continue
        raise _refused(key, value, str(list(accepted)) if accepted else "null: such adapters are not merged exactly")


def _refused(key: str, value: object, accepted: str) -> WeightsError:
    where = f"{key} of {CONFIG}" if key else CONFIG
    shown = json.dumps(value, default=str)
    return WeightsError(f"{where} is {shown[:100]}; accepted: {accepted}", field=f"{CONFIG}:{key}" if key else CONFIG)


def _number(found: Mapping[str, Any], key: str, default: int, *, whole: bool = False) -> Any:
    value = found.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or (whole and (value < 1 or value != int(value))):
        raise _refused(key, value, "a number of at least 1" if whole else "a number")
    return int(value) if whole else float(value)


def _pattern(found: Mapping[str, Any], key: str, *, whole: bool = False) -> dict[str, Any]:
    value = found.get(key) or {}
    if not isinstance(value, Mapping):
        raise _refused(key, value, "an object of numbers by pattern")
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error:
            raise _refused(key, pattern, "regular expressions of module names") from None
    return {pattern: _number(value, pattern, 0, whole=whole) for pattern in value}


def _matching(patterns: Mapping[str, Any], module: str, default: float) -> float:
    """Return the value of the first pattern that fits, as `get_pattern_key` of PEFT does."""
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return float(value)
    return default

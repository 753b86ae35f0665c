"""The initial drafter of offline training: a published one, or a new one of a given kind."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat, Json
from tlt_common.drafter.meta import training_of
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.drafter.files import config_of, from_files
from tlt_trainer.drafter.rope import require_rope
from tlt_trainer.drafter.shared_weights import trained_format
from tlt_trainer.offline.exporting import find_drafter

KINDS = tuple(map(str, DrafterArchitecture))


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDrafter:
    """The options that choose the drafter."""

    begin: str = ""
    """Path or URL of the drafter to continue; empty trains from scratch."""
    kind: str = ""
    """One of `KINDS`; empty for that of `begin`, otherwise eagle."""
    layers: str = ""
    """
    Layers of the policy that a new EAGLE-3 or block drafter reads, as numbers separated by commas; empty for the
    default.
    """
    draft_vocabulary: int | None = None
    """Maximum draft tokens of a new EAGLE-3 drafter; None for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The initial drafter."""

    form: DrafterFormat
    weights: Mapping[str, Tensor] | None = None
    """Its weights; None if it has not been trained."""
    tokens: int = 0
    """Number of tokens that it has learned from."""


def beginning(wanted: WantedDrafter, target: Json) -> Beginning:
    """
    Return the drafter that the options choose for a policy with this config.json.

    Raises:
        ConfigError: An option is invalid; the message names it and what is accepted.
    """
    if wanted.kind and wanted.kind not in KINDS:
        raise ConfigError(f"--kind is {wanted.kind!r}; accepted: {', '.join(KINDS)}", field="kind")
    for option, value, kinds in (
        ("layers", wanted.layers, (DrafterArchitecture.EAGLE3, DrafterArchitecture.BLOCK)),
        ("draft-vocabulary", wanted.draft_vocabulary, (DrafterArchitecture.EAGLE3,)),
    ):
        if value and (wanted.begin or wanted.kind not in kinds):
            accepted = f"with --kind {' or '.join(kinds)} and without --from, whose drafter has its own"
            raise ConfigError(f"--{option} is {value}; accepted: {accepted}", field=option.replace("-", "_"))
    if not wanted.begin:
        return Beginning(form=_new(wanted, target))
    uri, found = published(wanted.begin, target, "--from")
    if wanted.kind and wanted.kind != found.form.architecture:
        kind = found.form.architecture
        raise ConfigError(f"--kind is {wanted.kind}; the drafter at {uri} is {kind}", field="kind")
    return found


def published(source: str, target: Json, option: str) -> tuple[str, Beginning]:
    """
    Return the URI of a published drafter, and the drafter.

    Args:
        source: The drafter's directory, or one of several, as path or URL.
        target: config.json of the policy.
        option: Name of the argument in error messages.

    Raises:
        ConfigError: There is none, it cannot be read, or it belongs to another policy.
    """
    uri, files = find_drafter(source)
    try:
        form = format_of(config_of(files), target)
        require_rope(form)
        weights = from_files(files, form)
        return uri, Beginning(form=form, weights=weights, tokens=training_of(files)[1])
    except (ConfigError, WeightsError) as error:
        raise ConfigError(f"{option}: {uri}: {error.message}", field="source") from error


def _new(wanted: WantedDrafter, target: Json) -> DrafterFormat:
    kind = DrafterArchitecture(wanted.kind or DrafterArchitecture.EAGLE)
    layers = _numbers(wanted.layers) if wanted.layers else None
    try:
        return trained_format(target, kind, draft_vocabulary=wanted.draft_vocabulary, layers=layers)
    except WeightsError as error:
        hint = "" if wanted.layers else "; give --layers"
        raise ConfigError(f"--layers: {error.message}{hint}", field="layers") from error


def _numbers(layers: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in layers.split(","))
    except ValueError as error:
        raise ConfigError(
            f"--layers is {layers!r}; accepted: numbers with commas, as in 1,2", field="layers"
        ) from error

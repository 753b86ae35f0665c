"""Derives a drafter's format from its own config.json or from that of its target."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.block import BlockFormat
from tlt_common.drafter.eagle import EagleFormat
from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.mtp import MtpFormat
from tlt_common.drafter.published import standard_config
from tlt_common.drafter.sizes import require_sizes
from tlt_common.errors import ConfigError, WeightsError

FORMATS: Final[Mapping[DrafterArchitecture, type[DrafterFormat]]] = {
    form.architecture: form for form in (EagleFormat, Eagle3Format, BlockFormat, MtpFormat)
}

_NOT_A_CONFIG = (TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError)
"""Raised by conversions of values that have other types or are out of range."""

Json = Mapping[str, Any]


def standard_format(
    architecture: DrafterArchitecture,
    target: Json,
    *,
    draft_vocabulary: int | None = None,
    layers: Sequence[int] | None = None,
) -> DrafterFormat:
    """
    Return the default format of drafters for a target: layers like the target's own.

    Args:
        architecture: Architecture of the drafter.
        target: config.json of the target.
        draft_vocabulary: Maximum number of tokens of the drafter's own head; None uses the default.
        layers: Target layers that a drafter of several layers' states reads; None uses the default.

    Raises:
        ConfigError: The target's config.json lacks a size, which the message names, or has an unsupported value.
        WeightsError: The target does not have these layers, or too few to choose from.
    """
    try:
        form = FORMATS[architecture].standard(target, draft_vocabulary=draft_vocabulary, layers=layers)
        require_sizes(form)
    except KeyError as error:
        name = str(error.args[0])
        raise ConfigError(
            f"model: config.json has no {name}, which the drafter's format requires", field="model"
        ) from error
    except _NOT_A_CONFIG as error:
        raise ConfigError(f"model: config.json does not describe a supported model: {error}", field="model") from error
    return form


def format_of(drafter: Json, target: Json) -> DrafterFormat:
    """
    Return the format described by a drafter's config.json.

    Raises:
        WeightsError: It does not describe a drafter, or describes one for another target or an unsupported variant.
    """
    try:
        architecture, config = standard_config(drafter)
        form = FORMATS[architecture].read(config, target)
        require_sizes(form)
    except KeyError as error:
        raise WeightsError(f"the drafter's config.json has no {error.args[0]}") from error
    except _NOT_A_CONFIG as error:
        raise WeightsError(f"the drafter's config.json does not describe a drafter: {error}") from error
    return form

"""Why a worker is lent to drafter training, or not."""

from enum import StrEnum


class Standing(StrEnum):
    """What decides now. Of several reasons, the first of this list."""

    DOWN = "down"
    """It is unreachable."""
    EXCLUDED = "excluded"
    """An operator excluded it."""
    LENDING_OFF = "lending is off"
    """No worker is lent."""
    ROLLOUT = "requests run"
    """Rollouts have priority."""
    UPDATING = "weights are loaded"
    """As they do."""
    LENT = "lent"
    """It holds a lease."""
    SWITCHING = "switching"
    """Its devices are being returned, or it has not answered a lease yet."""
    NO_TRAINER = "no trainer"
    """It has none, or it does not answer."""
    RESTING = "nothing to learn"
    """Its trainer wants no lease."""
    QUEUE = "requests wait"
    """At a gateway."""
    SETTLING = "idle too short"
    """Since less than spot.settle_s."""
    RESERVED = "kept warm"
    """One of spot.keep_warm."""
    OFFERED = "about to be lent"
    """Nothing stands against it."""

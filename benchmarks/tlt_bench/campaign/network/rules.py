"""What happens to packets. Pure. Hosts are numbered; the number is the last byte of the address."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.config.base import Frozen


class Rules(Frozen):
    """What the switch does with packets until it receives other rules."""

    dropped: tuple[tuple[int, int], ...] = ()
    """Source and destination of packets that are dropped silently."""
    delay_s: float = 0.0
    """Seconds by which all packets are late, in each direction."""
    loss: float = 0.0
    """Share of all packets that are dropped."""

    def passes(self, source: int, destination: int, drawn: float) -> bool:
        """Return whether a packet is delivered; `drawn` is a random number from 0 to 1."""
        return (source, destination) not in self.dropped and drawn >= self.loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Rules, and what they are in words."""

    name: str
    rules: Rules


DELAY_S = 0.05
"""In each direction: 100 ms per round trip."""
LOSS = 0.05


def disturbances(pairs: Iterable[tuple[str, str]], numbers: dict[str, int]) -> tuple[Disturbance, ...]:
    """
    Return all disturbances: delay, loss, and for each pair a partition and both half-open connections.

    Args:
        pairs: Names of hosts that call each other.
        numbers: Number of each host.
    """
    found = [
        Disturbance(name=f"{2 * DELAY_S * 1000:.0f} ms delay", rules=Rules(delay_s=DELAY_S)),
        Disturbance(name=f"{LOSS:.0%} loss", rules=Rules(loss=LOSS)),
    ]
    for one, other in pairs:
        there, back = (numbers[one], numbers[other]), (numbers[other], numbers[one])
        found += [
            Disturbance(name=f"partition of {one} and {other}", rules=Rules(dropped=(there, back))),
            Disturbance(name=f"{one} to {other} half-open", rules=Rules(dropped=(there,))),
            Disturbance(name=f"{other} to {one} half-open", rules=Rules(dropped=(back,))),
        ]
    return tuple(found)

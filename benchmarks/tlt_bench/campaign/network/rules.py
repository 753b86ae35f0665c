"""Treatment of packets. Pure. Hosts are numbered by the last byte of their address."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Treatment of packets until other rules are applied."""

    dropped: tuple[tuple[int, int], ...] = ()
    """Source and destination of packets that are dropped silently."""
    delay_s: float = 0.0
    """Delay of all packets in each direction, in seconds."""
    loss: float = 0.0
    """Share of all packets that are dropped."""


def ruleset(rules: Rules, address: str) -> str:
    """Return the bridge's forwarding rules in nft's language. `address` is the first three bytes of all addresses."""
    drops = [f"ip saddr {address}.{source} ip daddr {address}.{target} drop" for source, target in rules.dropped]
    if rules.loss:
        drops.append(f"meta protocol ip numgen random mod 1000 < {rules.loss * 1000:.0f} drop")
    lines = ["type filter hook forward priority 0", *drops]
    return "flush ruleset\ntable bridge campaign {\n chain forward {\n  " + "\n  ".join(lines) + "\n }\n}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Rules with their description."""

    name: str
    rules: Rules


DELAY_S = 0.05
"""In each direction: 100 ms per round trip."""
LOSS = 0.05


def disturbances(
    pairs: Iterable[tuple[str, str]], numbers: dict[str, int], *, delays: bool = True
) -> tuple[Disturbance, ...]:
    """
    Return all disturbances: loss; delay, if packets can be delayed; and for each pair a partition and both half-open
    connections.

    Args:
        pairs: Names of hosts that call each other.
        numbers: Number of each host.
        delays: Whether packets can be delayed.
    """
    found = [Disturbance(name=f"{LOSS:.0%} loss", rules=Rules(loss=LOSS))]
    if delays:
        found.append(Disturbance(name=f"{2 * DELAY_S * 1000:.0f} ms delay", rules=Rules(delay_s=DELAY_S)))
    for one, other in pairs:
        there, back = (numbers[one], numbers[other]), (numbers[other], numbers[one])
        found += [
            Disturbance(name=f"partition of {one} and {other}", rules=Rules(dropped=(there, back))),
            Disturbance(name=f"{one} to {other} half-open", rules=Rules(dropped=(there,))),
            Disturbance(name=f"{other} to {one} half-open", rules=Rules(dropped=(back,))),
        ]
    return tuple(found)

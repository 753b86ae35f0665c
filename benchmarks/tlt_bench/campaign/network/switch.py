"""
Forwards IP packets between network namespaces and applies rules to them; a process of its own.

Run as `python -m tlt_bench.campaign.network.switch NUMBER=DESCRIPTOR ...`: the TUN device of each host by its number,
the last byte of its address. Reads rules as JSON lines from stdin, answers each with a line, and ends with stdin. It
needs no kernel modules for delay and loss, and no firewall.
"""

import heapq
import os
import random
import selectors
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from tlt_bench.campaign.network.rules import Rules

PACKET_BYTES = 2**16
SOURCE, DESTINATION = 15, 19
"""Offsets of the last bytes of both addresses in an IPv4 header."""
MAX_WAITING_S = 1.0


@dataclass(slots=True)
class Switch:
    """Delivers packets."""

    devices: dict[int, int]
    """Descriptor by host number."""
    rules: Rules = field(default_factory=Rules)
    _late: list[tuple[float, int, bytes]] = field(default_factory=list)
    _count: int = 0
    """Keeps packets that are due at the same moment in order."""
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def accept(self, packet: bytes, now_s: float) -> None:
        """Deliver a packet now or later, or drop it."""
        if packet[0] >> 4 != 4 or packet[DESTINATION] not in self.devices:
            return  # IPv6 announcements, multicast
        if not self.rules.passes(packet[SOURCE], packet[DESTINATION], self._random.random()):
            return
        if self.rules.delay_s:
            self._count += 1
            heapq.heappush(self._late, (now_s + self.rules.delay_s, self._count, packet))
        else:
            self._deliver(packet)

    def deliver_due(self, now_s: float) -> float:
        """Deliver late packets that are due; return the seconds until the next one."""
        while self._late and self._late[0][0] <= now_s:
            self._deliver(heapq.heappop(self._late)[2])
        return min(MAX_WAITING_S, self._late[0][0] - now_s) if self._late else MAX_WAITING_S

    def _deliver(self, packet: bytes) -> None:
        with suppress(OSError):  # the host's queue is full, which drops the packet, as a network does
            os.write(self.devices[packet[DESTINATION]], packet)


def run(switch: Switch) -> None:
    """Forward until stdin ends."""
    selector = selectors.DefaultSelector()
    for descriptor in switch.devices.values():
        os.set_blocking(descriptor, False)
        selector.register(descriptor, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    wait_s = MAX_WAITING_S
    while True:
        for key, _ in selector.select(wait_s):
            if key.fd == sys.stdin.fileno():
                line = sys.stdin.readline()
                if not line:
                    return
                switch.rules = Rules.model_validate_json(line)
                sys.stdout.write("applied\n")
                sys.stdout.flush()
            else:
                with suppress(BlockingIOError):
                    switch.accept(os.read(key.fd, PACKET_BYTES), time.monotonic())
        wait_s = switch.deliver_due(time.monotonic())


def main(arguments: list[str]) -> None:
    """Run with the devices of the command line."""
    devices = {int(number): int(descriptor) for number, _, descriptor in (one.partition("=") for one in arguments)}
    run(Switch(devices))


if __name__ == "__main__":
    main(sys.argv[1:])

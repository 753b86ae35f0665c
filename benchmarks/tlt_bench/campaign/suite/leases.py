"""Checks training leases in the logs of a run. Pure."""

import json
from collections.abc import Iterable, Iterator
from typing import Any


def events(text: str) -> Iterator[dict[str, Any]]:
    """
    Yield the JSON log events in a log, in which other text may appear.

    An event need not start its line, since progress bars of libraries end without a line break.
    """
    decoder = json.JSONDecoder()
    for line in text.splitlines():
        at = line.find("{")
        while at >= 0:
            try:
                found, end = decoder.raw_decode(line, at)
            except ValueError:
                end = at + 1
            else:
                if isinstance(found, dict) and "event" in found:
                    yield found
            at = line.find("{", end)


def overlaps(worker: str, log: Iterable[dict[str, Any]]) -> list[str]:
    """
    Return a sentence for each pair of leases of one worker under which its trainers computed concurrently.

    A trainer logs when it begins to compute under a lease and when it stops. A new trainer process ends the lease of
    its dead predecessor.
    """
    found, held = [], 0
    for event in log:
        epoch = int(event.get("epoch", 0))
        match event.get("event"):
            case "trainer_started":
                held = 0
            case "lease_begun":
                if held and held != epoch:
                    found.append(f"{worker} began to train under epoch {epoch} while it trained under {held}")
                held = epoch
            case "lease_over":
                # It names the newest lease that the process knows, which may have followed without a gap.
                if epoch < held:
                    found.append(f"{worker} trained under epoch {epoch} while it trained under {held}")
                held = 0
    return found


def repeated_epochs(granted: Iterable[dict[str, Any]]) -> list[str]:
    """Return a sentence for each lease whose epoch is not above all earlier ones, from any coordinator."""
    found, newest = [], 0
    for event in granted:
        if event.get("event") == "lease_granted":
            epoch = int(event["epoch"])
            if epoch <= newest:
                found.append(f"the coordinator granted epoch {epoch} to {event['worker_id']} after epoch {newest}")
            newest = max(newest, epoch)
    return found

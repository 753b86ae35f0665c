"""Sentences that explain why a worker is or is not lent."""

from collections.abc import Mapping

from tlt_coordinator.lending.decision import Standing
from tlt_coordinator.observer import ObservedWorker

_SENTENCES: Mapping[str, str] = {
    Standing.DOWN: "It is unreachable.",
    Standing.EXCLUDED: "An operator excluded it from lending.",
    Standing.LENDING_OFF: "Lending is off for the whole fleet.",
    Standing.ROLLOUT: "Requests run on it, and rollouts come first.",
    Standing.UPDATING: "It loads weights of the policy.",
    Standing.LENT: "It holds a lease: its devices train the drafter.",
    Standing.SWITCHING: "Its devices are being returned, or it has not answered its lease yet.",
    Standing.NO_TRAINER: "It has no spot trainer, or its trainer does not answer.",
    Standing.RESTING: "Its trainer has nothing to learn, and wants no lease.",
    Standing.QUEUE: "Requests wait at a gateway, so no worker is lent.",
    Standing.SETTLING: "It has not been idle for long, or is not expected to be for as long as a lease would cost.",
    Standing.RESERVED: "It is one of spot.keep_warm idle workers that are kept for new requests.",
    Standing.ENOUGH: "As many workers train as pay, or as spot.max_trainers allows.",
    Standing.OFFERED: "It is about to be lent.",
}


def reasons_of(worker: ObservedWorker) -> list[str]:
    """Return the reasons, the decisive one first."""
    found = _SENTENCES.get(worker.standing) or f"{worker.standing[:1].upper()}{worker.standing[1:]}."
    problem = worker.member.status.problem
    return [found, problem] if problem else [found]

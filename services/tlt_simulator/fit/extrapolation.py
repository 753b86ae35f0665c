"""Detects where a simulation goes beyond the run to which its costs were fitted. Pure."""

from typing import Final

from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import RunTrace

BEYOND: Final = 1.25
"""Times as much as was seen is still said to be covered."""
BETTER: Final = 0.05
"""By which a drafter may be better than those that were seen."""


def extrapolations(scenario: Scenario, trace: RunTrace) -> tuple[str, ...]:
    """Return where a simulation goes beyond the range of its fitted costs; empty if they were not fitted."""
    seen, fleet, found = scenario.costs.fitted_to, scenario.fleet, list[str]()
    if seen is None:
        return ()
    longest = max((sample.prompt_tokens + sample.tokens for step in trace.steps for sample in step.samples), default=0)
    tokens = max((sample.tokens for step in trace.steps for sample in step.samples), default=0)
    each = max((len(step.samples) for step in trace.steps), default=0)
    batch = min(fleet.slots, -(-each // fleet.workers))
    for what, wanted, known in (
        ("requests at a time on a worker", batch, seen.requests),
        ("tokens in a worker's KV cache", min(fleet.kv_room, longest), seen.kv_tokens),
        ("tokens of a response", tokens, seen.tokens),
        ("workers", fleet.workers, seen.workers),
    ):
        if wanted > BEYOND * known:
            found.append(f"{what}: up to {wanted:,.0f}; fitted to {known:,.0f} at most")
    if not scenario.suite.speculation:
        return tuple(found)
    best = scenario.costs.accept_best.value
    if seen.chances is None:
        found.append("drafters: none was used in the journal; all that is drafted is assumed")
    elif best > seen.chances[1] + BETTER:
        found.append(
            f"drafters: the first draft is accepted with up to {best:.2f}; fitted to {seen.chances[0]:.2f} to "
            f"{seen.chances[1]:.2f}"
        )
    return tuple(found)

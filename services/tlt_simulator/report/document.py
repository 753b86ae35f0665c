"""A simulation as plain values, for --json: the format `tlt-simulation/1`."""

from dataclasses import asdict
from typing import Any

from tlt_common import __version__
from tlt_simulator.report.findings import Findings, MeasuredTime, accept_lengths, pairs, typical, worst
from tlt_simulator.report.provenance import MEANINGS, by_source, named_figures
from tlt_simulator.report.sensitivity import Sensitivity
from tlt_simulator.report.what_to_set import WhatToSet
from tlt_simulator.result import SimulatedRun, StepRun
from tlt_simulator.sweep.outcomes import SweepOutcome

FORMAT = "tlt-simulation/1"


def document(findings: Findings) -> dict[str, Any]:
    """Return the whole report. It contains no timestamp, so that the same options give the same document."""
    comparison = findings.comparison
    scenario = comparison.scenario
    return {
        "format": FORMAT,
        "version": __version__,
        "name": scenario.name,
        "source": comparison.source,
        "seed": scenario.seed,
        "steps": len(comparison.with_suite.steps),
        "responses": findings.responses,
        "speedup": comparison.speedup,
        "rollout_speedup": comparison.rollout_speedup,
        "without": _run(comparison.without, scenario.fleet.devices),
        "with": _run(comparison.with_suite, scenario.fleet.devices),
        "typical_step": typical(comparison) + 1,
        "worst_step": worst(comparison) + 1,
        "measured": _measured(findings.measured),
        "measured_with": _measured(findings.measured_with),
        "published": [asdict(row) | {"error": row.error} for row in findings.published],
        "interval": asdict(findings.interval) if findings.interval else None,
        "sensitivity": _sensitivity(findings.sensitivity) if findings.sensitivity else None,
        "what_to_set": _what_to_set(findings.what_to_set) if findings.what_to_set else None,
        "incomplete": list(findings.missing),
        "sources": {
            source.value: {"meaning": MEANINGS[source], "numbers": [named.name for named in found]}
            for source, found in by_source(scenario).items()
        },
        "numbers": {
            named.name: {
                "value": named.figure.value,
                "low": named.figure.least,
                "high": named.figure.most,
                "source": named.figure.source.value,
                "of": named.figure.of,
            }
            for named in named_figures(scenario)
        },
        "notes": list(findings.all_notes),
        "scenario": scenario.model_dump(mode="json"),
        "by_step": [
            {
                "number": pair.with_suite.number,
                "speedup": pair.speedup,
                "without": _step(pair.without),
                "with": _step(pair.with_suite),
            }
            for pair in pairs(comparison)
        ],
    }


def _measured(found: MeasuredTime | None) -> dict[str, float] | None:
    return None if found is None else asdict(found) | {"error": found.error}


def _run(run: SimulatedRun, devices: int) -> dict[str, Any]:
    states = sorted({state for step in run.steps for state in step.by_state})
    first, last = accept_lengths(run.steps)
    return {
        "seconds": run.seconds,
        "days": run.seconds / 86_400,
        "rollout_s": run.rollout_s,
        "waited_s": run.waited_s,
        "tokens_s": run.tokens_s,
        "staleness": run.staleness,
        "max_staleness": run.max_staleness,
        "gpu_hours": run.seconds * devices / 3600,
        "device_s_by_state": {state: run.state_s(state) for state in states},
        "bubble_utilisation": run.bubble_utilisation,
        "accept_length_first": first,
        "accept_length_last": last,
        "drafters": len(run.publications),
        "events": run.events,
    }


def _step(step: StepRun) -> dict[str, Any]:
    return {
        "seconds": step.seconds,
        "rollout_s": step.rollout_s,
        "waited_s": step.waited_s,
        "learn_s": step.learn_s,
        "update_s": step.update_s,
        "tail_s": step.tail_s,
        "responses": step.responses,
        "tokens": step.tokens,
        "staleness": step.staleness,
        "max_staleness": step.max_staleness,
        "accept_length": step.accept_length,
        "drafter": step.drafter,
    }


def _outcome(outcome: SweepOutcome) -> dict[str, float]:
    return {
        "speedup": outcome.speedup,
        "rollout_speedup": outcome.rollout_speedup,
        "seconds": outcome.with_suite.seconds,
        "seconds_without": outcome.without.seconds,
    }


def _sensitivity(found: Sensitivity) -> dict[str, Any]:
    return {
        "steps": found.steps,
        "base": _outcome(found.base),
        "swings": [
            {
                "name": swing.name,
                "what": swing.what,
                "low": swing.low,
                "high": swing.high,
                "at_low": _outcome(swing.at_low),
                "at_high": _outcome(swing.at_high),
            }
            for swing in found.swings
        ],
    }


def _what_to_set(found: WhatToSet) -> dict[str, Any]:
    return {
        "steps": found.steps,
        "seeds": found.seeds,
        "lines": list(found.lines),
        "gain": found.gain,
        "tried": [asdict(value) for value in found.tried],
    }

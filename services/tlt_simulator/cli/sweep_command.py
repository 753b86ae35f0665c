"""Implementation of `tlt simulate sweep`, with its heavy imports."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_simulator.cli.inputs import Inputs, check
from tlt_simulator.cli.output import STANDARD_OUTPUT, require_directory, show, write_json
from tlt_simulator.cli.prepared import open_rows, prepared
from tlt_simulator.cli.progress import phases
from tlt_simulator.report import swept
from tlt_simulator.sweep.outcomes import cores
from tlt_simulator.sweep.results_file import ResultsFile, SweptScenario
from tlt_simulator.sweep.sweep import Sweep, grid


def sweep(
    inputs: Inputs,
    *,
    over: Sequence[str],
    seeds: int,
    results: Path | None,
    resume: bool,
    processes: int | None,
    json_to: str,
) -> None:
    """
    Simulate all combinations and print their rows.

    Raises:
        ConfigError: An option is not accepted, or a file cannot be read or written.
    """
    for name, value in (("seeds", seeds), ("processes", processes)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; accepted: at least 1", field=name)
    if resume and results is None:
        raise ConfigError("--resume: only with --results FILE", field="resume")
    if json_to and json_to != STANDARD_OUTPUT:
        require_directory(Path(json_to), "--json")
    values = grid(over)
    check(inputs)
    if labels := open_rows(inputs):
        accepted = "; ".join(labels)
        raise ConfigError(f"--row is required here; accepted for --case {inputs.case}: {accepted}", field="row")
    (found,) = prepared(inputs)
    todo = Sweep(found.scenario, values, seeds=seeds)
    swept_scenario = SweptScenario(scenario=found.scenario, trace=found.trace)
    file = None if results is None else ResultsFile(results, swept_scenario, resume=resume)
    with nullcontext() if file is None else file, phases() as begin:
        rows = todo.run(
            found.trace.steps, processes=processes or cores(), results=file, progress=begin("sweep", len(todo))
        )
    if json_to:
        write_json(swept.document(found.scenario, rows, seeds), json_to)
    if json_to != STANDARD_OUTPUT:
        if file is not None and file.cut:
            print(f"{results}: its last line was truncated and has been simulated again")
        show(swept.table(found.scenario, rows, seeds))

"""`tlt simulate` goes one way: options, log, machines, scenario, simulation. What has been left is not returned to."""

import inspect
import sys
from pathlib import Path
from types import FrameType

import pytest
from typer.testing import CliRunner

from tlt_simulator.cli import app, command
from tlt_simulator.run.simulation import Simulation

MOST_MODULES, MOST_RETURNS = 14, 10
OWN = Path(command.__file__).parents[1]
REPEATED = {"costs.figure", "traces.lengths"}
"""Called for each number and each response; they are not places on the way."""
LENGTHS = "lognormal:median=60,p99=300,cap=512"
OPTIONS = [
    *("--lengths", LENGTHS, "--prompts", "1", "--group", "1", "--steps", "2", "--gpus", "2", "--card", "h100"),
    *("--model", "7b", "--drafter", "none", "--learn-s", "1", "--set", "spot.max_trainers=2", "--quick"),
]


class Begun(BaseException):
    """The simulation begins."""


def visits() -> list[str]:
    """Return the simulator's modules in the order in which their functions are called, until the simulation begins."""
    assert command  # its imports are not part of the way
    found = list[str]()

    def look(frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED or code.co_name.startswith("<"):
            return
        file = Path(code.co_filename)
        if not file.is_relative_to(OWN):
            return
        module = ".".join(file.relative_to(OWN).with_suffix("").parts)
        if module not in REPEATED and found[-1:] != [module]:
            found.append(module)
        if code is Simulation.__init__.__code__:
            raise Begun

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        CliRunner().invoke(app, OPTIONS)
    except Begun:
        pass
    finally:
        sys.setprofile(before)
    return found


def test_the_way_to_the_first_event_is_short_and_straight(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_simulator.cli.command.compare", lambda trace, scenario, **_: Simulation(trace, scenario))
    way = visits()
    modules, returns = len(set(way)), len(way) - len(set(way))
    with capsys.disabled():
        sys.stdout.write(
            f"\ntlt simulate: {modules} modules before the first event, {returns} returns to one already left\n"
        )
    assert way[-1] == "run.simulation"
    assert modules <= MOST_MODULES, way
    assert returns <= MOST_RETURNS, way

"""`tlt simulate cases`."""

from typing import Annotated

import typer


def cases(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Describe this one. Default: list all.")] = "",
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Print instead how well rounds are calculated: every published speedup that no cost was fitted to, "
            "the errors, and how many are within their intervals.",
        ),
    ] = False,
) -> None:
    """List the published runs that can be simulated, or describe one: its published facts and the assumptions."""
    from tlt_common.errors import ConfigError
    from tlt_simulator.cases import case, names

    if held_out:
        if name:
            raise ConfigError(f"--held-out and {name!r}: accepted: one of them", field="held_out")
        _held_out()
        return
    if not name:
        for known in names():
            print(known)
        return
    found = case(name)
    print(f"{found.name}: {found.title}")
    for row in found.rows:
        print(f"  {row.label}: {row.published:g} published ({row.measure.value})")
    for kind, lines in (("published", found.known), ("assumed", found.assumed)):
        for line in lines:
            print(f"  {kind}: {line}")


def _held_out() -> None:
    from tlt_simulator.costs.compared import Measured, compared, errors_of

    rows = compared()
    shown = [row for row in rows if row.measured is Measured.HELD_OUT]
    width = max(len(row.what) for row in shown)
    print(f"{Measured.HELD_OUT.value:{width}}  published  calculated  90 % interval   error")
    for row in shown:
        ends = f"{row.interval.low:.2f} to {row.interval.high:.2f}" if row.interval else ""
        print(f"{row.what:{width}}  {row.published:9.2f}  {row.calculated:10.2f}  {ends:>13}  {row.error:+6.1%}")
    print()
    for measured in Measured:
        errors = errors_of([row for row in rows if row.measured is measured])
        within = "" if errors.coverage is None else f", {errors.coverage:.0%} within their intervals"
        print(f"{measured.value}: {errors.rows}; error: mean {errors.mean:.1%}, worst {errors.worst:.1%}{within}")

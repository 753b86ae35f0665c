"""`tlt simulate cases`."""

from typing import Annotated

import typer


def cases(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Describe this one. Default: list all.")] = "",
) -> None:
    """List the published runs that can be simulated, or describe one: its published facts and the assumptions."""
    from tlt_simulator.cases import case, names

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

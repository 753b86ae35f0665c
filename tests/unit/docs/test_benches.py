"""Every benchmark is described, and every figure of the cheap ones."""

import inspect
import re
from pathlib import Path

from tests.unit.tlt_bench.test_control import figures
from tlt_bench.campaign import parts as campaign_parts
from tlt_bench.cli import app, campaign
from tlt_bench.control.command import result_of
from tlt_bench.control.fleet import SIZES
from tlt_bench.gpu.parts import PARTS

ROOT = Path(__file__).parents[3]
PAGES = {path: path.read_text() for path in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]}


def test_every_benchmark_has_an_entry() -> None:
    names = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert {"gateway", "weights", "control", "campaign"} <= set(names)
    described = {name for page in PAGES.values() for name in re.findall(r"`?tlt bench ([a-z]+)", page)}
    assert set(names) <= described


def test_every_figure_of_the_coordinator_is_explained() -> None:
    fleet, alone_us = figures(1.0, cpu_share=0.1, rss_mib=50.0), dict.fromkeys(SIZES, 100.0)
    page = PAGES[ROOT / "docs/results/services.md"]
    for figure in result_of(dict.fromkeys(SIZES, fleet), alone_us).figures:
        assert f"`{re.sub(r'[0-9]+$', 'N', figure)}`" in page


def test_the_campaign_names_its_parts_and_describes_them() -> None:
    parts = {part.name for part in campaign_parts.PARTS}
    option = inspect.signature(campaign).parameters["part"].annotation.__metadata__[0].help
    assert set(re.findall(r"[a-z]+", option.partition(";")[0])) - {"or"} == parts
    assert set(re.findall(r"^\| `([a-z]+)` \|", PAGES[ROOT / "docs/campaign.md"], re.MULTILINE)) >= parts


def test_every_part_of_the_gpus_command_is_described() -> None:
    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGES[ROOT / "docs/gpu.md"], re.MULTILINE))
    assert re.findall(r"`([a-z0-9_-]+)`", rows) == [part.name for part in PARTS]

"""`tlt up --dry-run` and the lines of a start."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import countdown
from tlt_common.errors import ConfigError
from tlt_local.cli import app
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

MODEL = Path(countdown.__file__).with_name("checkpoint")


def dry_run(*options: str) -> str:
    result = CliRunner().invoke(app, ["--model", str(MODEL), "--gpus-per-worker", "0", "--dry-run", *options])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_it_says_what_would_start_where_and_with_how_much_memory(tmp_path: Path) -> None:
    said = dry_run("--port", "0", "--workers", "2", "--cores-per-worker", "1", "--run-dir", str(tmp_path / "run"))
    for part in (
        f"model     {MODEL.resolve()}",
        "drafter   none until one is trained",
        "cache with embedded Redis",
        "127.0.0.1:any free port  rollouts (gRPC)",
        "worker-1  CPU, core ",
        f"files     {tmp_path / 'run'}",
        "KV cache",
        "GiB",
        "largest batch that fits",
    ):
        assert part in said, said
    assert not (tmp_path / "run").exists()


def test_it_names_the_ports() -> None:
    said = dry_run("--port", "17700")
    assert [port for port in range(17700, 17704) if f"127.0.0.1:{port}" in said] == [17700, 17701, 17702, 17703]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--workers", "0"), "workers"),
        (("--set", "worker.engine.arms=off,chain-99999"), "engine.arms"),
        (("--drafter", "/nowhere"), "drafter"),
    ],
)
def test_what_would_be_refused_is_refused(options: tuple[str, ...], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        dry_run(*options)
    assert field in str(refused.value.field)


async def test_a_part_that_fails_is_said_before_the_others_are_stopped() -> None:
    said: list[str] = []

    async def fail() -> None:
        raise ConfigError("cache did not start: ended by SIGSEGV")

    stack = Stack(StackConfig(model=MODEL), say=said.append)
    with pytest.raises(ConfigError):
        await stack._failing_aloud(fail)
    assert said == ["cache did not start: ended by SIGSEGV; stopping the other parts"]

"""The `tlt` command. What a subcommand needs is imported when it runs, so that --help is instant."""

import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from tlt_common import __version__
from tlt_common.config.base import ServiceConfig
from tlt_common.config.explain import explain
from tlt_common.config.loader import load
from tlt_common.errors import ConfigError, TltError

USAGE = 2
"""Exit code for input that cannot be used."""


app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
config_app = typer.Typer(no_args_is_help=True, help="What services can be told.")
app.add_typer(config_app, name="config")

Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Overrides file and environment.")
]
File = Annotated[Path | None, typer.Option("--config", help="YAML or JSON with the keys of the service.")]
Name = Annotated[str, typer.Argument(help="One of gateway, worker, cache, trainer, tuner, coordinator.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tlt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Rollouts for RL trainers, whose idle devices train the drafter that makes their own long tail fast."""


@app.command()
def serve(name: Name, config: File = None, settings: Setting = None) -> None:
    """Run one service until SIGTERM. `tlt config explain NAME` lists its keys."""
    loaded = load(_model(name), name, file=config, environment=os.environ, settings=settings or [])
    _run(name)(loaded)


@app.command()
def health(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Of the service's gRPC port.")],
    service: Annotated[str, typer.Option(help="One of its gRPC services; else the server as a whole.")] = "",
    ca: Annotated[Path | None, typer.Option(help="Authorities that are believed (PEM). Encrypts.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Own certificate, for services that ask for one.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    server_name: Annotated[str, typer.Option(help="Name in the server's certificate, if not the host's.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 3.0,
) -> None:
    """Ask whether a service takes calls: exit code 0 if it does, 1 if it does not, 2 if the options make no sense."""
    from tlt_common.client.health import channel_to, credentials_of, require_serving

    tls = credentials_of(ca, certificate, key)

    async def ask() -> None:
        async with channel_to(address, ca=ca, tls=tls, server_name=server_name) as channel:
            await require_serving(channel, service, timeout_s=timeout)

    asyncio.run(ask())
    print("SERVING")


@config_app.command("explain")
def config_explain(name: Name) -> None:
    """List every key of a service with type, default and meaning."""
    for line in explain(_model(name)):
        print(line)


@config_app.command("check")
def config_check(name: Name, config: File = None, settings: Setting = None) -> None:
    """Read a configuration as `tlt serve` would, and say what it comes to."""
    loaded = load(_model(name), name, file=config, environment=os.environ, settings=settings or [])
    print(loaded.model_dump_json(indent=2))


def _entry(name: str) -> str:
    services = {entry.name: entry.module for entry in entry_points(group="tlt.services")}
    if name not in services:
        raise ConfigError(f"there is no service {name!r}; accepted: {', '.join(sorted(services))}", field="name")
    return services[name]


def _model(name: str) -> type[ServiceConfig]:
    package = _entry(name).partition(".")[0]
    model: type[ServiceConfig] = getattr(importlib.import_module(f"{package}.config"), f"{name.capitalize()}Config")
    return model


def _run(name: str) -> Callable[[ServiceConfig], None]:
    module = _entry(name)
    try:
        run: Callable[[ServiceConfig], None] = importlib.import_module(module).run
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tlt_"):
            raise
        raise ConfigError(
            f"{name} needs the package {error.name}; install it with: pip install 'tlt[{name}]'"
        ) from error
    return run


def main() -> Any:
    """Run the command; an error of ours becomes one line and an exit code."""
    # gRPC's C core prints lines of its own about what we report as errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for command in sorted(entry_points(group="tlt.commands"), key=lambda entry: entry.name):
        app.add_typer(command.load(), name=command.name)
    try:
        return app()
    except TltError as error:
        print(f"tlt: {error}", file=sys.stderr)
        sys.exit(USAGE if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

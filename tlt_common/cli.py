"""The `tlt` command. A subcommand imports its dependencies when it runs, so that --help is instant."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from tlt_common import __version__
from tlt_common.errors import ConfigError, TltError

USAGE = 2
"""Exit code for invalid input."""
CLONE_ONLY = frozenset({"bench", "demo", "tuner"})
"""Commands of distributions in the repository that are not published."""


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # which subcommands inherit
)
config_app = typer.Typer(no_args_is_help=True, help="Explain and check service configurations.")
app.add_typer(config_app, name="config")

Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key; overrides file and environment.")
]
File = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML or JSON).")]
Name = Annotated[str, typer.Argument(help="Service: gateway, worker, cache, trainer, tuner or coordinator.")]


def _version(show: bool) -> None:
    if show:
        print(f"tlt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Speed up RL rollouts by speculative decoding, with a drafter that is trained on idle devices."""


@app.command()
def serve(name: Name, config: File = None, settings: Setting = None) -> None:
    """Run a service until SIGTERM. `tlt config explain NAME` lists its keys."""
    from tlt_common.config.entry import service_entry
    from tlt_common.config.loader import load

    service = service_entry(name)
    loaded = load(service.model, name, file=config, environment=os.environ, settings=settings or [])
    with _requiring(service.extra):
        service.load_run()(loaded)


@app.command()
def health(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="gRPC address of the service.")],
    service: Annotated[str, typer.Option(help="Full name of a gRPC service; empty checks the whole server.")] = "",
    ca: Annotated[Path | None, typer.Option(help="CA bundle (PEM); enables TLS.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Client certificate (PEM), for services that require one.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Private key of the client certificate (PEM).")] = None,
    server_name: Annotated[
        str, typer.Option(help="Name expected in the server certificate; empty means the host.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Timeout in seconds.")] = 3.0,
) -> None:
    """Check the health of a service. Exit codes: 0 serving, 1 not serving or unreachable, 2 invalid options."""
    import asyncio

    from tlt_common.client.health import channel_to, credentials_of, require_serving

    tls = credentials_of(ca, certificate, key)

    async def check() -> None:
        async with channel_to(address, ca=ca, tls=tls, server_name=server_name) as channel:
            await require_serving(channel, service, timeout_s=timeout, address=address)

    asyncio.run(check())
    print("SERVING")


@config_app.command("explain")
def config_explain(name: Name) -> None:
    """List the keys of a service with type, default and description."""
    from tlt_common.config.entry import service_entry
    from tlt_common.config.explain import explain

    for line in explain(service_entry(name).keys):
        print(line)


@config_app.command("check")
def config_check(name: Name, config: File = None, settings: Setting = None) -> None:
    """Load a configuration as `tlt serve` would and print the result as JSON."""
    from tlt_common.config.entry import service_entry
    from tlt_common.config.loader import load

    loaded = load(service_entry(name).keys, name, file=config, environment=os.environ, settings=settings or [])
    print(loaded.model_dump_json(indent=2))


@contextmanager
def _requiring(extra: str) -> Iterator[None]:
    """
    Turn a failed import into an error that names the extra to install.

    Raises:
        ConfigError: A package is not installed. A missing module of our own is a bug and is raised unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tlt_"):
            raise
        raise ConfigError(
            f"the package {error.name} is not installed; install it with: pip install 'tlt-suite[{extra}]'"
        ) from error


def _mount(arguments: Sequence[str]) -> None:
    """
    Load the command named by the arguments, or all commands if none is (`--help`, a typo), so that they are listed.

    Raises:
        ConfigError: The command is available only in a clone of the repository.
    """
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    if name in {"serve", "health", "config"}:
        return
    commands = {entry.name: entry for entry in entry_points(group="tlt.commands")}
    if name in CLONE_ONLY - set(commands):
        raise ConfigError(
            f"tlt {name} is not part of the package; run it from a clone of the repository after `make install`"
        )
    for command in [name] if name in commands else sorted(commands):
        app.add_typer(commands[command].load(), name=command)


def main() -> Any:
    """Run the command. A TltError becomes one line on stderr and an exit code."""
    # gRPC's C core would log what we report as errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        with _requiring(extra="all"):
            _mount(sys.argv[1:])
            return app()
    except TltError as error:
        print(f"tlt: {error}", file=sys.stderr)
        sys.exit(USAGE if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

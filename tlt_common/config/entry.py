"""Services by name: entry points of the group `tlt.services`, so that tlt_common imports no service."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.errors import ConfigError

GROUP = "tlt.services"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEntry:
    """Description of a service for `tlt`. Its module imports nothing heavy, so that --help stays fast."""

    model: type[ServiceConfig]
    """Configuration model."""
    run: str
    """module:function that runs the service with its configuration. Imported only by `tlt serve`."""
    extra: str
    """Extra of tlt-suite that installs the packages of the service."""
    own_keys: type[Frozen] | None = None
    """The part of the model that users configure, for a service whose other fields another service passes to it."""

    @property
    def keys(self) -> type[Frozen]:
        """Model of the keys that users configure."""
        return self.own_keys or self.model

    def load_run(self) -> Callable[[ServiceConfig], None]:
        """
        Import the service and return its `run` function.

        Raises:
            ModuleNotFoundError: A package of the extra is not installed.
        """
        module, _, name = self.run.partition(":")
        run: Callable[[ServiceConfig], None] = getattr(importlib.import_module(module), name)
        return run


def service_entry(name: str) -> ServiceEntry:
    """
    Return the entry of a service.

    Raises:
        ConfigError: No service has that name.
    """
    services = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in services:
        raise ConfigError(f"unknown service {name!r}; accepted: {', '.join(sorted(services))}", field="name")
    service: ServiceEntry = services[name].load()
    return service

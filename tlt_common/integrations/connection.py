"""Connection of a trainer's processes to the gateway, from the trainer's own configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from tlt_common.client import BlockingClient, Client, ClientOptions
from tlt_common.client.rollout import PATIENCE_S
from tlt_common.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Options from which a gateway client is created. Picklable, so that it can be passed to Ray actors."""

    endpoint: tuple[str, ...]
    """host:port of the gateway, or several of gateways that are replicas."""
    token_file: str = ""
    """File with a token that has the scopes generate and update_weights; reloaded when it changes."""
    ca: str | None = None
    """CA bundle (PEM) to verify the gateway with; enables TLS."""
    tls: bool | None = None
    """Whether to use TLS; see `Client`."""
    server_name: str = ""
    """Name expected in the gateway's certificate."""
    patience_s: float | None = PATIENCE_S
    """Seconds for which a response that broke off is retried; null sets no limit."""
    wait_s: float = 300.0
    """Seconds to wait for the gateway and the first worker."""

    @classmethod
    def of(cls, options: Mapping[str, Any], *, key: str) -> Self:
        """
        Read the options from a mapping, which the trainer's configuration has under this key.

        Raises:
            ConfigError: The endpoint is missing, or a key is unknown.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise ConfigError(f"{key}.{unknown[0]}: accepted: {', '.join(known)}", field=f"{key}.{unknown[0]}")
        if not (endpoint := options.get("endpoint")):
            raise ConfigError(f"{key}.endpoint is missing; accepted: host:port of the gateway", field=f"{key}.endpoint")
        several = (endpoint,) if isinstance(endpoint, str) else tuple(endpoint)
        return cls(**{**options, "endpoint": several})

    def client(self) -> Client:
        """Return a client. It connects at its first call, in the event loop that makes it."""
        return Client(self.endpoint, **self._options)

    def blocking_client(self) -> BlockingClient:
        """Return a blocking client. It connects at its first call."""
        return BlockingClient(self.endpoint, **self._options)

    @property
    def _options(self) -> ClientOptions:
        return {
            "token": Path(self.token_file) if self.token_file else None,
            "ca": self.ca,
            "tls": self.tls,
            "server_name": self.server_name,
            "patience_s": self.patience_s,
        }

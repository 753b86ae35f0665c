"""
A load balancer for verl that passes conversation ids to the gateway.

verl gives each call a new id; only its load balancer sees the conversation's id. Write a file with the line

    router_class: tlt_suite.verl.TltRouter

and set `actor_rollout_ref.rollout.router_config_path` to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verl.workers.rollout.router import GlobalRequestLoadBalancer


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTurn:
    """The handle of a `TltServer` for one call. verl calls its `remote`."""

    server: Any
    session_id: str

    @property
    def generate(self) -> "RoutedTurn":
        """The only method that verl calls through a load balancer."""
        return self

    def remote(self, **arguments: Any) -> Any:
        """Call `TltServer.generate`; return Ray's reference to the result."""
        return self.server.generate.remote(session_id=self.session_id, **arguments)


class TltRouter(GlobalRequestLoadBalancer):  # type: ignore[misc]
    """verl's own balancer, with handles that know the conversation. The choice of replica does not matter."""

    def __init__(self, servers: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """
        Create the balancer.

        Args:
            servers: Handles by address.
            config: The configuration file, which only has `router_class`.
        """
        del config
        super().__init__(dict(servers))

    def acquire_server(self, request_id: str) -> tuple[str, RoutedTurn]:
        """Choose a server for a call of this conversation."""
        server_id, server = super().acquire_server(request_id)
        return server_id, RoutedTurn(server=server, session_id=request_id)

"""What a gateway is told."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import ServiceConfig


class GatewayConfig(ServiceConfig):
    """The public rollout endpoint. Workers come from the coordinator or, without one, from a fixed list."""

    coordinator: str | None = None
    """host:port of the coordinator. It may come and go: the workers known last stay in use."""
    workers: tuple[str, ...] = ()
    """host:port of workers that are there whatever a coordinator says."""
    gateway_id: str = "gateway"
    """Name under which queue depth is reported; one per gateway."""
    max_queued: int = Field(16384, ge=1)
    """Requests that may wait. One that comes after them is refused with RESOURCE_EXHAUSTED."""
    retry_after_s: float = Field(1.0, gt=0)
    """Delay that a refused client is told."""
    worker_wait_s: float = Field(60.0, gt=0)
    """Longest time that requests wait while no worker is there at all; then UNAVAILABLE."""
    max_moves: int = Field(3, ge=0)
    """Lost workers that one request survives by going on elsewhere."""
    spill_load: float = Field(0.25, ge=0, le=1)
    """Share of a worker's slots up to which requests keep away from workers that train their drafter."""
    probe_s: float = Field(1.0, gt=0)
    """Time between two looks at a worker; a lost one is back in use after as long."""
    report_s: float = Field(0.5, gt=0)
    """Longest time between two reports of queue depth to the coordinator; changes are reported at once."""
    stage_s: float = Field(600.0, gt=0)
    """Deadline of one worker for fetching and checking new weights, and again for switching to them."""
    spool_dir: Path | None = None
    """Where streamed weights are kept for workers that join later; None: a temporary directory."""
    tokens: Path | None = None
    """YAML file of bearer tokens, read anew when it changes: `tokens: [{name: trainer, token: SECRET,
    scopes: [generate, update_weights], expires_at: 2027-01-01T00:00:00Z}]`. `sha256: HEX` stands for `token`;
    expires_at may be left out; the scopes are generate, update_weights and admin, which includes all. Null: everybody
    is let in."""
    drain_s: float = Field(0.0, ge=0)
    """Time that running requests get to finish after SIGTERM, while new ones are refused; then they are ended."""
    spool_shared: bool = False
    """Workers see spool_dir under the same path: they are told the path and not sent the tensors again."""


CONFIG = GatewayConfig

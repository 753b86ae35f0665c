"""Configuration of the gateway."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES


class HttpSettings(Frozen):
    """The rollout endpoint over HTTP, with SGLang's and OpenAI's protocols. Uses `tls` if set; callers present
    the tokens of `tokens` as bearer headers.
    """

    listen: str | None = None
    """host:port of the HTTP server; port 0 picks a free port. Null disables it."""
    tokenizer: Path | None = None
    """Directory of the model's tokenizer and chat template. Null accepts token ids only, and answers have no text."""
    request_templates: bool | None = None
    """Whether chat requests may bring their own template. Templates are programs: they run in a process of their own,
    limited in CPU time and memory, but one caller's keep those of others waiting. Null accepts them unless `tokens` is
    set."""
    tool_parser: str | None = None
    """Finds tool calls in chat responses: the name of one of SGLang's parsers, such as qwen25, hermes or llama3. Needs
    SGLang (`tlt-suite[tools]`), which workers' images have. Null refuses tools, except with tool_choice none."""
    receive_s: float = Field(60.0, gt=0)
    """Seconds in which a request must arrive, with its body; slower clients are disconnected."""


class GatewayConfig(ServiceConfig):
    """The public rollout endpoint. Workers are discovered through the coordinator or listed explicitly."""

    component = "gateway"

    coordinator: str | None = None
    """host:port of the coordinator; null uses only `workers`. While it is unreachable, known workers stay in use."""
    workers: tuple[str, ...] = ()
    """host:port of workers to use in addition to those the coordinator reports."""
    gateway_id: str = "gateway"
    """Name of this gateway in queue reports and in workers' logs; unique per gateway."""
    worker_service: str | None = None
    """host:port of a DNS name with the addresses of all workers, such as a headless Service, to find them without a
    coordinator; null uses none."""
    known_workers: Path | None = None
    """File in which the last known list of workers is kept, to find them after a restart without a coordinator; null
    keeps none."""
    peers: tuple[str, ...] = ()
    """host:port of the other gateways of the fleet, or of a name with all their addresses, such as a headless Service.
    Aborts and pauses are passed on to them."""
    max_queued: int = Field(32768, ge=1)
    """Maximum number of queued requests; further ones are refused with RESOURCE_EXHAUSTED."""
    max_queued_tokens: int = Field(16 * 2**20, ge=1)
    """Maximum number of tokens in the prompts of queued requests, further ones are refused with RESOURCE_EXHAUSTED. A
    token takes about 50 bytes of memory; the samples of a prompt in a batch share it."""
    queue_share_per_token: float = Field(0.5, gt=0, le=1)
    """Share of `max_queued` and of `max_queued_tokens` that the holder of one of `tokens` may take, so that others find
    room. Without `tokens`, everybody shares the whole queue."""
    share_cache: bool = False
    """Requests of different tokens may use one another's cached prefixes, and drafts of n-gram arms made of them, which
    saves prefill where several tokens send the same prompts. It tells a caller, by the number of cached tokens and of
    accepted drafts, whether others have sent a prompt, and parts of the responses."""
    max_pause_s: float | None = Field(3600.0, gt=0)
    """Seconds after which a pause that was neither ended nor renewed, by pausing again, ends by itself at all gateways,
    for example because the trainer died. Null waits forever."""
    retry_after_s: float = Field(1.0, gt=0)
    """Retry delay, in seconds, sent to refused clients."""
    worker_wait_s: float = Field(60.0, gt=0)
    """Seconds that requests wait while no worker is available before they fail with UNAVAILABLE."""
    max_moves: int = Field(3, ge=0)
    """Maximum number of times a request moves to another worker after its worker is lost."""
    spill_load: float = Field(0.25, ge=0, le=1)
    """Share of a worker's slots to fill before requests are sent to workers that are training."""
    affinity_tokens: int | None = Field(256, ge=1)
    """A turn of a session, or another sample of a prompt, runs on a worker that has its beginning cached, unless that
    worker would run more requests than the least loaded one by more than one per this many cached tokens. Null ignores
    what workers have cached."""
    tail_running: int = Field(4, ge=0)
    """In the tail, when nothing is queued and the coordinator lends idle workers, running requests move from workers
    that can be lent to others, which then run at most this many each. What moves is prefilled again. 0 moves none."""
    probe_s: float = Field(1.0, gt=0)
    """Seconds between attempts to reach a lost worker; also the delay before one is used again."""
    silence_s: float | None = Field(10.0, gt=0)
    """Seconds without any message after which a worker is lost and its requests move, although its connection is open:
    its process hangs or is stopped. Only time in which this gateway ran on schedule counts, and only while another
    worker is heard. Null loses workers by closed connections only."""
    report_s: float = Field(0.5, gt=0)
    """Maximum seconds between queue reports to the coordinator; changes are reported immediately."""
    stage_s: float = Field(600.0, gt=0)
    """Deadline per worker, in seconds, for fetching and checking new weights, and again for switching to them."""
    straggler_s: float = Field(30.0, gt=0)
    """Seconds that an update waits for further workers after the first one has fetched and checked the weights, and
    again after the first has switched; as long as that took, if that is more. Workers that exceed it are left behind
    and updated later."""
    spool_dir: Path | None = None
    """Directory for streamed weights, kept for workers that join later; must hold two copies. A gateway that restarts
    with the same directory serves the last update again; delete its content to start over at version 0. An update does
    not wait for the disk: after a power failure within seconds it may be missing. Workers whose run directory is on
    the same mount link the files instead of copying them. Null uses a temporary directory, deleted when the gateway
    stops."""
    spool_bytes: int | None = Field(None, gt=0)
    """Size in bytes of the volume with `spool_dir`, if it is smaller than its file system, as a Kubernetes volume with
    a size limit is; half of it is the maximum size of streamed weights. Null: what the file system has free is."""
    max_weights_bytes: int = Field(MAX_WEIGHTS_BYTES, gt=0)
    """Maximum size of streamed weights in bytes, however large the volume is; larger ones are refused."""
    tokens: Path | None = None
    """YAML file with bearer tokens, reloaded when it changes: `tokens: [{name: trainer, token: SECRET, scopes:
    [generate, update_weights], expires_at: 2027-01-01T00:00:00Z}]`. `sha256: HEX` may replace `token`; `expires_at` is
    optional, and so is `weight` (1 by default), by which the queued requests of several tokens share free slots. The
    scopes are generate, update_weights and admin, which includes the others. Null disables authentication; all requests
    then share one queue."""
    http: HttpSettings = HttpSettings()
    """The rollout endpoint over HTTP."""
    max_message_bytes: int = Field(16 * 2**20, ge=5 * 2**20, le=256 * 2**20)
    """Maximum size of a request message in bytes; larger ones are refused. Pieces of streamed weights have 4 MiB."""
    max_calls_per_token: int = Field(16384, ge=1)
    """Maximum number of running calls per token, and of streams per connection; further ones are refused with
    RESOURCE_EXHAUSTED. Without `tokens`, all clients share one limit."""
    max_spool_bytes_per_token: int = Field(512 * 2**30, ge=1)
    """Maximum bytes of weights that the running updates of one token may stream; more are refused with
    RESOURCE_EXHAUSTED."""
    max_connections: int = Field(8192, ge=1)
    """Maximum number of client connections; further ones are closed. Connections without calls are closed after 15
    minutes."""
    drain_s: float = Field(0.0, ge=0)
    """Seconds for running calls, over gRPC and HTTP, to finish after SIGTERM, while new ones are refused; the rest end
    with an error that says so."""
    spool_shared: bool = False
    """Workers mount spool_dir under the same path: send them the path instead of the tensors."""


SERVICE = ServiceEntry(model=GatewayConfig, run="tlt_gateway.main:run", extra="gateway")
"""`tlt serve gateway`."""

"""Configuration of the gateway."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.journal.files import JOURNAL_MIN_BYTES


class HttpSettings(Frozen):
    """The rollout endpoint over HTTP, with SGLang's and OpenAI's protocols. Uses `tls` if set; callers present
    the tokens of `tokens` as bearer headers.
    """

    listen: str | None = None
    """host:port of the HTTP server; port 0 picks a free port. Null disables it."""
    tokenizer: Path | None = None
    """Directory of the model's tokenizer and chat template. Null accepts token ids only, and answers have no text."""
    request_templates: bool | None = None
    """Accept chat templates in requests. Templates are programs: they run in a separate process with limited CPU time
    and memory, but one caller's template can delay those of others. Null: only if `tokens` is not set."""
    tool_parser: str | None = None
    """Name of the SGLang parser that finds tool calls in chat responses, such as qwen25, hermes or llama3. Requires
    SGLang (`tlt-suite[tools]`), which the worker image contains. Null refuses tools, unless tool_choice is none."""
    chat_memory_bytes: int = Field(2**27, ge=0)
    """Bytes in which the sampled tokens of conversations are remembered, so that later turns begin with these very
    tokens and not with others for the same text. A conversation takes 4 bytes per token of its newest turn, and 512
    bytes per turn. When there is no room, the longest unused conversation of the caller with the most is forgotten."""


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
    """host:port of a DNS name that resolves to all workers, such as a headless Service, to find them without a
    coordinator; null uses none."""
    known_workers: Path | None = None
    """File in which the last known list of workers is kept, to find them after a restart without a coordinator; null
    keeps none."""
    peers: tuple[str, ...] = ()
    """host:port of the other gateways of the fleet, or of a name that resolves to all of them, such as a headless
    Service. Aborts and pauses are passed on to them."""
    max_queued: int = Field(32768, ge=1)
    """Maximum number of queued requests; further ones are refused with RESOURCE_EXHAUSTED. With `tokens`, the requests
    of one token take at most half of it, and of `max_queued_tokens`."""
    max_queued_tokens: int = Field(16 * 2**20, ge=1)
    """Maximum number of tokens in the prompts of queued requests; further requests are refused with RESOURCE_EXHAUSTED.
    A token takes about 50 bytes of memory; the samples of a prompt in a batch share it."""
    share_cache: bool = False
    """Share cached prefixes, and the drafts that n-gram arms make from them, between requests of different tokens. This
    saves prefill where several tokens send the same prompts, but the number of cached tokens and of accepted drafts
    then tells a caller whether others have sent a prompt, and parts of the responses."""
    max_pause_s: float | None = Field(3600.0, gt=0)
    """Maximum duration of a pause, in seconds. A pause that is neither ended nor renewed (by pausing again) within this
    time, for example because the trainer died, ends at all gateways. Null: no maximum."""
    worker_wait_s: float = Field(60.0, gt=0)
    """Seconds that a request waits for an available worker before it fails with UNAVAILABLE."""
    pack_running: int = Field(10, ge=0)
    """While the coordinator lends idle workers, send new requests to a worker that runs some already until it runs this
    many, so that asynchronous trainers, too, leave whole workers to lend. 0 spreads requests evenly."""
    journal: Path | None = None
    """Directory in which lengths and times of responses, rounds and updates are written down for a simulation of the
    run: no tokens and no texts. It may be shared by the gateways and the coordinator of a fleet. Null: none."""
    journal_bytes: int = Field(2**29, ge=JOURNAL_MIN_BYTES)
    """Maximum size in bytes of this gateway's files in `journal`; the oldest are deleted. A response takes about 450
    bytes."""
    silence_s: float | None = Field(10.0, gt=0)
    """Seconds without a message after which a worker is considered lost and its requests move, even if its connection
    is open, as when its process hangs or is stopped. Only time in which this gateway ran on schedule counts, and only
    while another worker is heard from. Null: only closed connections count."""
    stage_s: float = Field(600.0, gt=0)
    """Deadline per worker, in seconds, for fetching and checking new weights, and again for switching to them."""
    spool_dir: Path | None = None
    """Directory for streamed weights, kept for workers that join later; must hold two copies. A gateway that
    restarts with the same directory serves the last update again; delete its content to start over at version 0.
    Updates do not wait for the disk: one that arrived seconds before a power failure may be lost. Null: a temporary
    directory, deleted when the gateway stops."""
    spool_bytes: int | None = Field(None, gt=0)
    """Size in bytes of the volume with `spool_dir`, if smaller than its file system, as with a size limit on a
    Kubernetes volume; half of it is the maximum size of streamed weights. Null: the free space of the file system."""
    tokens: Path | None = None
    """YAML file with bearer tokens, reloaded when it changes: `tokens: [{name: trainer, token: SECRET, scopes:
    [generate, update_weights], expires_at: 2027-01-01T00:00:00Z}]`. `sha256: HEX` may replace `token`; `expires_at` is
    optional, and so is `weight` (1 by default), by which the queued requests of several tokens share free slots. The
    scopes are generate, update_weights, observe (no call to a gateway) and admin, which includes the others. Null
    disables authentication; all requests then share one queue."""
    http: HttpSettings = HttpSettings()
    """The rollout endpoint over HTTP."""
    max_message_bytes: int = Field(16 * 2**20, ge=5 * 2**20, le=256 * 2**20)
    """Maximum size of a request message in bytes; larger ones are refused. Streamed weights arrive in pieces of 4
    MiB."""
    max_calls_per_token: int = Field(16384, ge=1)
    """Maximum number of concurrent calls per token, and of streams per connection; further ones are refused with
    RESOURCE_EXHAUSTED. Without `tokens`, all clients share one limit."""
    max_connections: int = Field(8192, ge=1)
    """Maximum number of client connections per port; further ones are closed, over HTTP once their first request was
    answered with 503. Connections above half of the file descriptors that the process may have, over HTTP a quarter,
    are closed at once, and those without calls after 15 minutes."""
    drain_s: float = Field(0.0, ge=0)
    """Grace period in seconds for running calls, over gRPC and HTTP, after SIGTERM. New calls are refused meanwhile;
    calls that are still running afterwards end with an error that says so."""
    spool_shared: bool = False
    """Send workers the path of streamed weights instead of the tensors, so that no worker keeps a copy; they must
    mount `spool_dir` under the same path."""


SERVICE = ServiceEntry(model=GatewayConfig, run="tlt_gateway.main:run", extra="gateway")
"""`tlt serve gateway`."""

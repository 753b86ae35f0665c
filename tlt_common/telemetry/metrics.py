"""All metrics of the suite. Names contain units; labels have small closed sets of values."""

from prometheus_client import Counter, Gauge, Histogram

# Reasoning responses take between milliseconds and an hour; each bucket is at most 2.5 times the previous one.
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 1800, 3600)
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LENGTHS = tuple(2**power for power in range(4, 17))

BUILD_INFO = Gauge("tlt_build_info", "Always 1; labels state the version and component.", ["version", "component"])

RPC_CALLS = Counter("tlt_rpc_calls", "Completed calls.", ["service", "method", "code"])
CERTIFICATE_EXPIRY = Gauge(
    "tlt_tls_certificate_expiry_timestamp_seconds", "Expiry of the process's certificate, as Unix time; 0 without one."
)
RPC_REFUSED = Counter("tlt_rpc_refused", "Calls refused by authentication or authorization.", ["service", "reason"])
HTTP_CONNECTIONS_REFUSED = Counter(
    "tlt_http_refused_connections", "HTTP connections closed at once, since as many as descriptors allow were open."
)
RPC_LOOP_STALL = Gauge(
    "tlt_rpc_loop_stall_seconds",
    "Longest time for which one function blocked the event loop and computed, in the last 30 to 60 s.",
)
RPC_RELOADS = Counter("tlt_rpc_reloads", "Reloads of certificate and token files.", ["kind", "outcome"])

OPTIONAL_FAILURES = Counter(
    "tlt_optional_failures", "Failures of parts that the service does without, such as reports and journals.", ["part"]
)

JOURNAL_BYTES = Counter("tlt_journal_written_bytes", "Bytes written to the journal.")
JOURNAL_DROPPED = Counter(
    "tlt_journal_dropped_lines", "Lines that the journal lacks, since the disk was too slow for them."
)
JOURNAL_ENDED = Gauge("tlt_journal_ended", "1 once the journal is no longer written, since its disk is full or failed.")

GATEWAY_READY_WORKERS = Gauge("tlt_gateway_ready_workers", "Workers that accept requests.")
GATEWAY_QUEUED = Gauge("tlt_gateway_queued_requests", "Queued requests.")
GATEWAY_QUEUED_TOKENS = Gauge(
    "tlt_gateway_queued_tokens", "Prompt tokens of queued requests; the samples of a prompt in a batch count once."
)
GATEWAY_PAUSED = Gauge("tlt_gateway_paused", "1 while generation is paused, else 0.")
GATEWAY_PAUSES_EXPIRED = Counter(
    "tlt_gateway_expired_pauses", "Pauses that were neither ended nor renewed within max_pause_s."
)
GATEWAY_REQUESTS = Counter("tlt_gateway_requests", "Completed requests.", ["outcome"])
GATEWAY_MOVED_REQUESTS = Counter(
    "tlt_gateway_moved_requests", "Requests moved to another worker because theirs was lost."
)
GATEWAY_REFUSED = Counter("tlt_gateway_refused_requests", "Requests refused because the queue was full.")
GATEWAY_RUNNING = Gauge("tlt_gateway_running_requests", "Requests running on workers.")
GATEWAY_PRODUCED_TOKENS = Counter("tlt_gateway_produced_tokens", "Tokens sent to clients.")
GATEWAY_REQUEST_SECONDS = Histogram(
    "tlt_gateway_request_seconds", "Duration of finished requests, from arrival to last token.", buckets=LONG_SECONDS
)
GATEWAY_FIRST_TOKEN_SECONDS = Histogram(
    "tlt_gateway_first_token_seconds", "Time from arrival to first token, queueing included.", buckets=LONG_SECONDS
)
GATEWAY_QUEUE_SECONDS = Histogram(
    "tlt_gateway_queue_seconds", "Time that requests spent in the queue.", buckets=LONG_SECONDS
)
GATEWAY_PROMPT_TOKENS = Histogram("tlt_gateway_prompt_tokens", "Prompt lengths.", buckets=LENGTHS)
GATEWAY_CHAT_PROMPTS = Counter(
    "tlt_gateway_chat_prompts", "Chat prompts, by how the tokens of earlier responses were found.", ["history"]
)
GATEWAY_CHAT_BYTES = Gauge(
    "tlt_gateway_chat_memory_bytes", "Memory in which sampled tokens are remembered for later turns of conversations."
)
GATEWAY_FORGOTTEN_CONVERSATIONS = Counter(
    "tlt_gateway_forgotten_conversations", "Conversations whose sampled tokens were forgotten to make room for others."
)
GATEWAY_SESSION_TOKENS = Counter("tlt_gateway_session_prompt_tokens", "Prompt tokens of finished turns of sessions.")
GATEWAY_SESSION_CACHED = Counter(
    "tlt_gateway_session_cached_tokens",
    "Prompt tokens of finished turns of sessions that were read from the worker's cache.",
)
GATEWAY_RESPONSE_TOKENS = Histogram("tlt_gateway_response_tokens", "Lengths of finished responses.", buckets=LENGTHS)
GATEWAY_RESPONSE_VERSIONS = Histogram(
    "tlt_gateway_response_versions", "Number of policy versions in a finished response.", buckets=(1, 2, 3, 4, 6, 8, 16)
)
GATEWAY_WORKERS = Gauge("tlt_gateway_workers", "Workers by state, as seen by the gateway.", ["state"])
GATEWAY_LOST_WORKERS = Counter(
    "tlt_gateway_lost_workers",
    "Workers lost, by evidence: a failed call, the end of the connection (watch), or silence.",
    ["evidence"],
)
GATEWAY_UPDATE_SECONDS = Histogram(
    "tlt_gateway_update_seconds", "Duration of weight updates, from first byte to last switch.", buckets=LONG_SECONDS
)
GATEWAY_UPDATES = Counter("tlt_gateway_updates", "Weight updates requested by trainers.", ["outcome"])
GATEWAY_UPDATE_FAILURES = Counter("tlt_gateway_update_failures", "Weight updates that failed on a worker.", ["phase"])
GATEWAY_POLICY_VERSION = Gauge("tlt_gateway_policy_version", "Policy version served.")
GATEWAY_REPORT_FAILURES = Counter("tlt_gateway_report_failures", "Queue reports that did not reach the coordinator.")

WORKER_REQUESTS = Counter("tlt_worker_requests", "Requests completed by the engine.", ["outcome"])
WORKER_PRODUCED_TOKENS = Counter("tlt_worker_produced_tokens", "Tokens the engine produced.")
WORKER_RUNNING = Gauge("tlt_worker_running_requests", "Requests in the engine.")
WORKER_POLICY_VERSION = Gauge("tlt_worker_policy_version", "Policy version the engine serves.")
WORKER_DRAFTER_VERSION = Gauge("tlt_worker_drafter_version", "Drafter version in use; 0 if none.")
WORKER_PAUSE_SECONDS = Histogram(
    "tlt_worker_pause_seconds", "Time rollouts were paused for an update.", ["cause"], buckets=SHORT_SECONDS
)
WORKER_PREEMPT_SECONDS = Histogram(
    "tlt_worker_preempt_seconds",
    "Time from the end of a lease until the device is released.",
    buckets=SHORT_SECONDS,
)
WORKER_DEVICE_STATE = Gauge("tlt_worker_device_state", "1 for the current state of the worker's device.", ["state"])
ROUNDS = Counter("tlt_worker_rounds", "Decoding rounds.", ["arm"])
ROUND_TOKENS = Counter("tlt_worker_round_tokens", "Tokens produced in rounds of an arm.", ["arm"])
ROUND_SECONDS = Counter("tlt_worker_round_seconds", "Time spent in rounds of an arm.", ["arm"])
ACCEPTED_TOKENS = Counter("tlt_worker_accepted_draft_tokens", "Accepted draft tokens.", ["arm"])
DRAFTED_TOKENS = Counter("tlt_worker_drafted_tokens", "Verified draft tokens.", ["arm"])
ARM_SWITCHES = Counter("tlt_worker_arm_switches", "Rounds that ran a different arm from the previous round.")
NGRAM_BYTES = Gauge("tlt_worker_ngram_bytes", "Memory used by the n-gram index.")
AHEAD_TOKENS = Counter(
    "tlt_worker_ahead_tokens", "Tokens of responses to announced prompts, generated ahead and thrown away."
)
DRAFTER_LOADS = Counter("tlt_worker_drafter_loads", "Attempts to load a drafter.", ["outcome"])
FRAMES_SENT = Counter("tlt_worker_frames_sent", "Captured frames that the cache stored.")
FRAMES_DROPPED = Counter(
    "tlt_worker_frames_dropped", "Captured frames that did not reach the cache's store.", ["reason"]
)
CAPTURE_PAUSED = Gauge("tlt_worker_capture_paused", "1 while capture is paused because the queue of frames is full.")
WINDOWS_DROPPED = Counter("tlt_worker_windows_dropped", "Reward windows that did not reach the tuner.")
LEASES_ENDED = Counter("tlt_worker_leases_ended", "Training leases ended.", ["reason"])
TRAINER_RESTARTS = Counter("tlt_worker_trainer_restarts", "Restarts of the spot trainer process.")

CACHE_FRAMES = Counter("tlt_cache_frames", "Frames received by the cache.")
CACHE_DROPPED_FRAMES = Counter(
    "tlt_cache_dropped_frames", "Frames not stored because the budget was full or their shard was unreachable."
)
CACHE_REFUSED_FRAMES = Counter("tlt_cache_refused_frames", "Frames refused because they could not be read.")
CACHE_LOST_SHARDS = Gauge("tlt_cache_lost_shards", "Unreachable shards of the store, while others are reachable.")
CACHE_TAKEN_TOKENS = Counter("tlt_cache_taken_tokens", "Tokens delivered to trainers.")
CACHE_KEPT_FRAMES = Gauge("tlt_cache_kept_frames", "Stored frames, over all replicas.")
CACHE_BUDGET_BYTES = Gauge("tlt_cache_budget_bytes", "Byte budget for frames.")
CACHE_BYTES = Gauge("tlt_cache_used_bytes", "Bytes that the store uses for frames.")
CACHE_EVICTED = Gauge("tlt_cache_evicted_frames", "Frames evicted, over all replicas.")
CACHE_STORE_UP = Gauge("tlt_cache_store_up", "1 while the store is reachable.")

TRAINING_LOSS = Gauge("tlt_trainer_loss", "Loss of the last step.")
TRAINING_STEPS = Counter("tlt_trainer_steps", "Optimizer steps.")
TRAINING_TOKENS = Counter("tlt_trainer_tokens", "Tokens trained on.")
TRAINING_SECONDS = Counter("tlt_trainer_step_seconds", "Time the device computed for training.")
TRAINER_BEGIN_SECONDS = Histogram(
    "tlt_trainer_begin_seconds", "Time from a lease until training begins.", buckets=SHORT_SECONDS
)
TRAINER_FREE_SECONDS = Histogram(
    "tlt_trainer_free_seconds",
    "Time from a revocation until the device is free, by what the trainer was doing.",
    ["doing"],
    buckets=SHORT_SECONDS,
)
TRAINER_OUT_OF_MEMORY = Counter(
    "tlt_trainer_out_of_memory", "Leases in which training stopped early because the device ran out of memory."
)
TRAINER_RESTING = Gauge("tlt_trainer_resting", "1 while training is stopped because nothing is left to learn.")
TRAINER_RESTS = Counter("tlt_trainer_rests", "Times that training stopped because nothing was left to learn.")
TRAINER_RESUMED = Counter(
    "tlt_trainer_resumed",
    "Times that training resumed after it had stopped because nothing was left to learn.",
    ["reason"],
)
TRAINER_BASE_VERSION = Gauge("tlt_trainer_base_version", "Drafter version that training continues from; 0 if none.")
HELD_OUT_LENGTH = Gauge(
    "tlt_trainer_held_out_accept_length", "Expected tokens per round on held-out data.", ["drafter"]
)
HELD_OUT_TOP = Gauge("tlt_trainer_held_out_top1_ratio", "Share of held-out positions predicted correctly.")
DRAFTERS_PUBLISHED = Counter("tlt_trainer_drafters_published", "Drafters offered to the coordinator.", ["outcome"])
CHECKPOINT_SECONDS = Histogram("tlt_trainer_checkpoint_seconds", "Checkpoint duration.", buckets=SHORT_SECONDS)
CHECKPOINTS_SKIPPED = Counter(
    "tlt_trainer_checkpoints_skipped",
    "Checkpoints, or optimizer states, from which training could not continue.",
    ["reason"],
)
UNUSABLE_FRAMES = Counter("tlt_trainer_unusable_frames", "Frames that were not trained on.", ["reason"])
DRAFT_COVERAGE = Gauge("tlt_trainer_draft_coverage_ratio", "Share of generated tokens an EAGLE-3 drafter can draft.")

ARM_ROUNDS = Counter("tlt_tuner_rounds", "Rounds reported by engines.", ["arm", "group"])
ARM_REWARD = Gauge("tlt_tuner_reward_tokens_per_second", "Most recently reported median reward.", ["arm", "group"])
ARM_TOKENS = Counter("tlt_tuner_tokens", "Tokens produced in reported rounds.", ["group"])
TUNER_STORE_UP = Gauge("tlt_tuner_store_up", "1 while the tuner's Redis is reachable; 0 if it has none.")
REGRET_TOKENS = Counter(
    "tlt_tuner_regret_tokens",
    "Additional tokens the best known arm would have produced.",
    ["group"],
)

WORKER_STATE_SECONDS = Counter(
    "tlt_worker_state_seconds",
    "The ledger: device-seconds by state. Lent time is added once the trainer has reported what it computed.",
    ["worker", "state"],
)
WORKER_STATE = Gauge("tlt_worker_state", "1 for the current state of a worker.", ["worker", "state"])
BUBBLE_UTILISATION = Gauge(
    "tlt_bubble_utilisation_ratio",
    "Training / all bubbles, in device-seconds: training, switching, updating, idle, starting and resting.",
)
FLEET_QUEUED = Gauge("tlt_fleet_queued_requests", "Requests queued at gateways.")
LENDING = Gauge("tlt_lending_enabled", "1 while lending is enabled.")
DRAFTER_AGE = Gauge("tlt_drafter_age_versions", "Weight updates since the newest drafter was published; 0 if none.")
DRAFTER_PUBLISHED = Gauge("tlt_drafter_published_timestamp_seconds", "Unix time of the newest drafter; 0 if none.")
DRAFTER_VERSION = Gauge("tlt_drafter_version", "Newest drafter version; 0 if none.")
COORDINATOR_ACTIVE = Gauge("tlt_coordinator_active", "1 while this coordinator has read its state and lends.")
POD_PATCHES = Counter("tlt_coordinator_pod_patches", "Attempts to write roles to pods.", ["outcome"])
POD_EVENTS = Counter("tlt_coordinator_pod_events", "Attempts to create role-change Events.", ["outcome"])
LEASES_GRANTED = Counter("tlt_leases_granted", "Training leases granted.")
LEASES_REVOKED = Counter("tlt_leases_revoked", "Training leases revoked.", ["reason"])

# Prometheus sees the first increase of a series only if it has scraped the zero before it.
for _counter, _label, _values in (
    (GATEWAY_REQUESTS, "outcome", ("finished", "failed", "aborted", "stale", "hung_up", "drained")),
    (GATEWAY_CHAT_PROMPTS, "history", ("none", "spliced", "tokenized", "forgotten")),
    (GATEWAY_UPDATES, "outcome", ("done", "failed")),
    (GATEWAY_UPDATE_FAILURES, "phase", ("stage", "commit", "bring_forward")),
    (DRAFTER_LOADS, "outcome", ("loaded", "refused", "failed")),
    (FRAMES_DROPPED, "reason", ("full", "refused")),
    (UNUSABLE_FRAMES, "reason", ("invalid", "other_layers", "other_size", "nothing_generated")),
    (LEASES_ENDED, "reason", ("rollout", "revoked", "expired", "trainer_died", "trainer_failed", "resting")),
    (TRAINER_RESUMED, "reason", ("policy", "drafter", "frames", "drop")),
    (CHECKPOINTS_SKIPPED, "reason", ("incomplete", "missing", "damaged", "optimizer")),
    (DRAFTERS_PUBLISHED, "outcome", ("accepted", "overtaken", "refused")),
):
    for _value in _values:
        _counter.labels(**{_label: _value})

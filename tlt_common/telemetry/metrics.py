"""Every metric of the suite. Units are in the names, labels come from small closed sets."""

from prometheus_client import Counter, Gauge, Histogram

# Responses of reasoning models take from a blink to an hour; a bucket is at most 2.5 times the one before.
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 1800, 3600)
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LENGTHS = tuple(2**power for power in range(4, 17))

BUILD_INFO = Gauge("tlt_build_info", "1, with what runs in the labels.", ["version", "component"])

RPC_CALLS = Counter("tlt_rpc_calls", "Calls answered.", ["service", "method", "code"])
CERTIFICATE_EXPIRY = Gauge(
    "tlt_tls_certificate_expiry_timestamp_seconds", "When the process's certificate expires; 0: it has none."
)
RPC_REFUSED = Counter("tlt_rpc_refused", "Calls refused because of who made them.", ["service", "reason"])
RPC_RELOADS = Counter("tlt_rpc_reloads", "Changed files of certificates or tokens.", ["kind", "outcome"])

GATEWAY_READY_WORKERS = Gauge("tlt_gateway_ready_workers", "Workers that take requests.")
GATEWAY_QUEUED = Gauge("tlt_gateway_queued_requests", "Requests that wait for a worker.")
GATEWAY_REQUESTS = Counter("tlt_gateway_requests", "Requests that ended.", ["outcome"])
GATEWAY_MOVED_REQUESTS = Counter("tlt_gateway_moved_requests", "Requests that went on at another worker.")
GATEWAY_REFUSED = Counter("tlt_gateway_refused_requests", "Requests that came while the queue was full.")
GATEWAY_RUNNING = Gauge("tlt_gateway_running_requests", "Requests that a worker answers.")
GATEWAY_PRODUCED_TOKENS = Counter("tlt_gateway_produced_tokens", "Tokens sent to clients.")
GATEWAY_REQUEST_SECONDS = Histogram(
    "tlt_gateway_request_seconds", "Finished requests, from arrival to last token.", buckets=LONG_SECONDS
)
GATEWAY_FIRST_TOKEN_SECONDS = Histogram(
    "tlt_gateway_first_token_seconds", "From arrival to first token, waiting included.", buckets=LONG_SECONDS
)
GATEWAY_QUEUE_SECONDS = Histogram("tlt_gateway_queue_seconds", "Time until a worker was free.", buckets=LONG_SECONDS)
GATEWAY_PROMPT_TOKENS = Histogram("tlt_gateway_prompt_tokens", "Lengths of prompts.", buckets=LENGTHS)
GATEWAY_RESPONSE_TOKENS = Histogram("tlt_gateway_response_tokens", "Lengths of finished responses.", buckets=LENGTHS)
GATEWAY_RESPONSE_VERSIONS = Histogram(
    "tlt_gateway_response_versions", "Policy versions that one finished response spans.", buckets=(1, 2, 3, 4, 6, 8, 16)
)
GATEWAY_WORKERS = Gauge("tlt_gateway_workers", "Workers by what the gateway makes of them.", ["state"])
GATEWAY_UPDATE_SECONDS = Histogram(
    "tlt_gateway_update_seconds", "Weights updates, first byte to last switch.", buckets=LONG_SECONDS
)
GATEWAY_UPDATES = Counter("tlt_gateway_updates", "Weights updates that trainers asked for.", ["outcome"])
GATEWAY_UPDATE_FAILURES = Counter("tlt_gateway_update_failures", "Workers that refused or missed weights.", ["phase"])
GATEWAY_POLICY_VERSION = Gauge("tlt_gateway_policy_version", "Policy version served.")
GATEWAY_REPORT_FAILURES = Counter("tlt_gateway_report_failures", "Queue reports the coordinator did not take.")

WORKER_REQUESTS = Counter("tlt_worker_requests", "Requests that ended in the engine.", ["outcome"])
WORKER_PRODUCED_TOKENS = Counter("tlt_worker_produced_tokens", "Tokens the engine produced.")
WORKER_RUNNING = Gauge("tlt_worker_running_requests", "Requests in the engine.")
WORKER_POLICY_VERSION = Gauge("tlt_worker_policy_version", "Policy version the engine serves.")
WORKER_DRAFTER_VERSION = Gauge("tlt_worker_drafter_version", "Drafter the engine has; 0: none.")
WORKER_PAUSE_SECONDS = Histogram(
    "tlt_worker_pause_seconds", "Time rollouts stood still for a change.", ["cause"], buckets=SHORT_SECONDS
)
WORKER_PREEMPT_SECONDS = Histogram(
    "tlt_worker_preempt_seconds", "From the end of a lease to a device free of training.", buckets=SHORT_SECONDS
)
WORKER_DEVICE_STATE = Gauge("tlt_worker_device_state", "1 for what the worker's device does now.", ["state"])
ROUNDS = Counter("tlt_worker_rounds", "Decoding rounds.", ["arm"])
ROUND_TOKENS = Counter("tlt_worker_round_tokens", "Tokens produced in rounds of an arm.", ["arm"])
ROUND_SECONDS = Counter("tlt_worker_round_seconds", "Time spent in rounds of an arm.", ["arm"])
ACCEPTED_TOKENS = Counter("tlt_worker_accepted_draft_tokens", "Draft tokens kept.", ["arm"])
DRAFTED_TOKENS = Counter("tlt_worker_drafted_tokens", "Draft tokens verified.", ["arm"])
ARM_SWITCHES = Counter("tlt_worker_arm_switches", "Rounds that ran another arm than the round before.")
NGRAM_BYTES = Gauge("tlt_worker_ngram_bytes", "Memory of the texts that n-gram arms retrieve from.")
DRAFTER_LOADS = Counter("tlt_worker_drafter_loads", "Drafters swapped in, or refused.", ["outcome"])
FRAMES_SENT = Counter("tlt_worker_frames_sent", "Frames of hidden states the cache took.")
FRAMES_DROPPED = Counter("tlt_worker_frames_dropped", "Frames of hidden states that were lost.", ["where"])
WINDOWS_DROPPED = Counter("tlt_worker_windows_dropped", "Reward windows the tuner did not get.")
LEASES_ENDED = Counter("tlt_worker_leases_ended", "Training leases that ended here.", ["reason"])
TRAINER_RESTARTS = Counter("tlt_worker_trainer_restarts", "Spot trainer processes that died and were started again.")

CACHE_FRAMES = Counter("tlt_cache_frames", "Frames offered to the cache.", ["outcome"])
CACHE_TAKEN_TOKENS = Counter("tlt_cache_taken_tokens", "Tokens handed out for training.")
CACHE_KEPT_FRAMES = Gauge("tlt_cache_kept_frames", "Frames that are kept, over all replicas.")
CACHE_BUDGET_BYTES = Gauge("tlt_cache_budget_bytes", "Bytes that kept frames may take.")
CACHE_BYTES = Gauge("tlt_cache_used_bytes", "Bytes of kept frames.")
CACHE_EVICTED = Gauge("tlt_cache_evicted_frames", "Frames evicted so far, over all replicas.")
CACHE_STORE_UP = Gauge("tlt_cache_store_up", "1 while the store answers.")

TRAINING_LOSS = Gauge("tlt_trainer_loss", "Loss of the last step.")
TRAINING_STEPS = Counter("tlt_trainer_steps", "Optimizer steps.")
TRAINING_TOKENS = Counter("tlt_trainer_tokens", "Tokens trained on.")
TRAINING_SECONDS = Counter("tlt_trainer_step_seconds", "Time spent in training steps.")
TRAINER_BASE_VERSION = Gauge("tlt_trainer_base_version", "Drafter this trainer goes on from; 0: none.")
HELD_OUT_LENGTH = Gauge(
    "tlt_trainer_held_out_accept_length", "Tokens per round to expect on held-out data.", ["drafter"]
)
HELD_OUT_TOP = Gauge("tlt_trainer_held_out_top1_ratio", "Held-out positions whose likeliest token is guessed.")
DRAFTERS_PUBLISHED = Counter("tlt_trainer_drafters_published", "Drafters offered to the fleet.", ["outcome"])
CHECKPOINT_SECONDS = Histogram("tlt_trainer_checkpoint_seconds", "Time to write a checkpoint.", buckets=SHORT_SECONDS)
UNUSABLE_FRAMES = Counter("tlt_trainer_unusable_frames", "Frames that do not fit the policy or are too short.")

ARM_ROUNDS = Counter("tlt_tuner_rounds", "Rounds reported.", ["arm", "group"])
ARM_REWARD = Gauge("tlt_tuner_reward_tokens_per_second", "Median reward last reported.", ["arm", "group"])
ARM_TOKENS = Counter("tlt_tuner_tokens", "Tokens produced in reported rounds.", ["group"])
TUNER_STORE_UP = Gauge("tlt_tuner_store_up", "1 while the tuner's Redis answers; 0 also where it has none.")
REGRET_TOKENS = Counter(
    "tlt_tuner_regret_tokens", "Tokens that the best arm known would have produced more in the same time.", ["group"]
)

WORKER_STATE_SECONDS = Counter("tlt_worker_state_seconds", "Device-seconds by state: the ledger.", ["worker", "state"])
WORKER_STATE = Gauge("tlt_worker_state", "1 for the state a worker is in.", ["worker", "state"])
BUBBLE_UTILISATION = Gauge("tlt_bubble_utilisation_ratio", "training / (training + idle + switching).")
FLEET_QUEUED = Gauge("tlt_fleet_queued_requests", "Requests that wait at gateways.")
LENDING = Gauge("tlt_lending_enabled", "1 while idle workers may be lent to training.")
DRAFTER_AGE = Gauge("tlt_drafter_age_versions", "Policy versions since the newest drafter was first seen; 0: none.")
DRAFTER_PUBLISHED = Gauge("tlt_drafter_published_timestamp_seconds", "When the newest drafter was published; 0: none.")
DRAFTER_VERSION = Gauge("tlt_drafter_version", "Newest drafter; 0: none.")
COORDINATOR_LEADER = Gauge("tlt_coordinator_leader", "1 while this replica leads, or is the only one.")
LEADER_TRANSITIONS = Counter("tlt_coordinator_leader_transitions", "Times this replica changed its part.", ["to"])
POD_PATCHES = Counter("tlt_coordinator_pod_patches", "Roles written to pods, or not.", ["outcome"])
POD_EVENTS = Counter("tlt_coordinator_pod_events", "Events about changed roles, made or not.", ["outcome"])
LEASES_GRANTED = Counter("tlt_leases_granted", "Training leases granted.")
LEASES_REVOKED = Counter("tlt_leases_revoked", "Training leases taken back.", ["reason"])

# The first of a kind counts only if Prometheus has seen the zero before it.
for _counter, _label, _values in (
    (GATEWAY_REQUESTS, "outcome", ("finished", "failed", "aborted", "hung_up")),
    (GATEWAY_UPDATES, "outcome", ("done", "failed")),
    (GATEWAY_UPDATE_FAILURES, "phase", ("stage", "commit", "bring_forward")),
    (DRAFTER_LOADS, "outcome", ("loaded", "refused")),
    (FRAMES_DROPPED, "where", ("engine", "pump", "worker", "wire")),
    (LEASES_ENDED, "reason", ("rollout", "revoked", "expired", "trainer_died", "trainer_failed")),
    (CACHE_FRAMES, "outcome", ("kept", "dropped")),
    (DRAFTERS_PUBLISHED, "outcome", ("accepted", "overtaken")),
):
    for _value in _values:
        _counter.labels(**{_label: _value})

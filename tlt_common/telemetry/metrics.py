"""Every metric of the suite. Units are in the names, labels come from small closed sets."""

from prometheus_client import Counter, Gauge, Histogram

RPC_CALLS = Counter("tlt_rpc_calls", "Calls answered.", ["service", "method", "code"])
CERTIFICATE_RELOADS = Counter("tlt_rpc_certificate_reloads", "Changed TLS files, loaded or refused.", ["outcome"])

GATEWAY_READY_WORKERS = Gauge("tlt_gateway_ready_workers", "Workers that take requests.")
GATEWAY_QUEUED = Gauge("tlt_gateway_queued_requests", "Requests that wait for a worker.")
GATEWAY_REQUESTS = Counter("tlt_gateway_requests", "Requests that ended.", ["outcome"])
GATEWAY_MOVED_REQUESTS = Counter("tlt_gateway_moved_requests", "Requests that went on at another worker.")
GATEWAY_UPDATE_SECONDS = Histogram("tlt_gateway_update_seconds", "Weights updates, first byte to last switch.")
GATEWAY_POLICY_VERSION = Gauge("tlt_gateway_policy_version", "Policy version served.")
GATEWAY_REPORT_FAILURES = Counter("tlt_gateway_report_failures", "Queue reports the coordinator did not take.")

WORKER_REQUESTS = Counter("tlt_worker_requests", "Requests that ended in the engine.", ["outcome"])
WORKER_PRODUCED_TOKENS = Counter("tlt_worker_produced_tokens", "Tokens the engine produced.")
WORKER_DEVICE_STATE = Gauge("tlt_worker_device_state", "1 for what the worker's device does now.", ["state"])
ROUNDS = Counter("tlt_worker_rounds", "Decoding rounds.", ["arm"])
ROUND_TOKENS = Counter("tlt_worker_round_tokens", "Tokens produced in rounds of an arm.", ["arm"])
ROUND_SECONDS = Counter("tlt_worker_round_seconds", "Time spent in rounds of an arm.", ["arm"])
ACCEPTED_TOKENS = Counter("tlt_worker_accepted_draft_tokens", "Draft tokens kept.", ["arm"])
DRAFTER_LOADS = Counter("tlt_worker_drafter_loads", "Drafters swapped in, or refused.", ["outcome"])
FRAMES_SENT = Counter("tlt_worker_frames_sent", "Frames of hidden states the cache took.")
FRAMES_DROPPED = Counter("tlt_worker_frames_dropped", "Frames of hidden states that were lost.", ["where"])
WINDOWS_DROPPED = Counter("tlt_worker_windows_dropped", "Reward windows the tuner did not get.")
LEASES_ENDED = Counter("tlt_worker_leases_ended", "Training leases that ended here.", ["reason"])
TRAINER_RESTARTS = Counter("tlt_worker_trainer_restarts", "Spot trainer processes that died and were started again.")

CACHE_FRAMES = Counter("tlt_cache_frames", "Frames offered to the cache.", ["outcome"])
CACHE_TAKEN_TOKENS = Counter("tlt_cache_taken_tokens", "Tokens handed out for training.")
CACHE_BYTES = Gauge("tlt_cache_used_bytes", "Bytes of kept frames.")
CACHE_EVICTED = Gauge("tlt_cache_evicted_frames", "Frames evicted so far, over all replicas.")
CACHE_STORE_UP = Gauge("tlt_cache_store_up", "1 while the store answers.")

TRAINING_LOSS = Gauge("tlt_trainer_loss", "Loss of the last step.")
TRAINING_STEPS = Counter("tlt_trainer_steps", "Optimizer steps.")
TRAINING_TOKENS = Counter("tlt_trainer_tokens", "Tokens trained on.")
HELD_OUT_TOP = Gauge("tlt_trainer_held_out_top1_ratio", "Held-out positions whose likeliest token is guessed.")
DRAFTERS_PUBLISHED = Counter("tlt_trainer_drafters_published", "Drafters offered to the fleet.", ["outcome"])
CHECKPOINT_SECONDS = Histogram("tlt_trainer_checkpoint_seconds", "Time to write a checkpoint.")
UNUSABLE_FRAMES = Counter("tlt_trainer_unusable_frames", "Frames that do not fit the policy or are too short.")

ARM_ROUNDS = Counter("tlt_tuner_rounds", "Rounds reported.", ["arm", "group"])
ARM_REWARD = Gauge("tlt_tuner_reward_tokens_per_second", "Median reward last reported.", ["arm", "group"])

WORKER_STATE_SECONDS = Counter("tlt_worker_state_seconds", "Device-seconds by state: the ledger.", ["worker", "state"])
WORKER_STATE = Gauge("tlt_worker_state", "1 for the state a worker is in.", ["worker", "state"])
BUBBLE_UTILISATION = Gauge("tlt_bubble_utilisation_ratio", "training / (training + idle + switching).")
FLEET_QUEUED = Gauge("tlt_fleet_queued_requests", "Requests that wait at gateways.")
DRAFTER_VERSION = Gauge("tlt_drafter_version", "Newest drafter; 0: none.")
LEASES_GRANTED = Counter("tlt_leases_granted", "Training leases granted.")
LEASES_REVOKED = Counter("tlt_leases_revoked", "Training leases taken back.", ["reason"])

"""Channels, all with the same limits."""

import grpc

MESSAGE_BYTES = 256 * 2**20
"""Largest message: a training frame is far below, a tensor piece is 4 MiB."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # A peer that restarts is back within seconds; gRPC's own 20 s would be the longest wait of a rollout.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection of its own per channel, so that closing one never ends another's calls.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


def connect(address: str) -> grpc.aio.Channel:
    """Open a channel to host:port or unix:PATH; `async with` closes it. Connecting happens at the first call."""
    return grpc.aio.insecure_channel(address, options=list(OPTIONS))

"""
State that a gateway shares with its peers and the coordinator: pauses and the length of its queue.

Others use `GatewayPeers`, `Pauses` and `QueueReport`.
"""

"""
What a gateway shares with its peers and the coordinator: pauses, and how long its queue is.

Others use `GatewayPeers`, `Pauses` and `QueueReport`.
"""

"""The public rollout endpoint: queue, routing, resume and weight updates in front of the workers."""

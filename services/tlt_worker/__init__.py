"""The rollout worker: one engine on one device, and beside it a spot trainer."""

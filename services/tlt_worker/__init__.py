"""The rollout worker: one engine on one device, with a spot trainer."""

"""The part `storage`: Redis full, slow, flushed and restarted; full disks under drafters, checkpoints and weights."""

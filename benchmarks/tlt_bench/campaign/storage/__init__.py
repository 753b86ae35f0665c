"""The part `storage`: Redis full, slow, flushed and restarted, and full disks under drafters and checkpoints."""

"""The part `storage`: Redis, disks and an object store that fail, and a clock that is set."""

"""The part `storage`: failing Redis, disks and object store, and changed clocks."""

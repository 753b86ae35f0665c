"""Distributes weight updates to all workers. Others use `WeightsFanout`, `CollectedUpdates` and `ReleaseStore`."""

"""Weight updates on their way to all workers. Others use `WeightsFanout`, `CollectedUpdates` and `ReleaseStore`."""

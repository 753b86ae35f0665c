"""The coordinator: lends idle workers to drafter training, revokes the leases, and accounts for every worker-second."""

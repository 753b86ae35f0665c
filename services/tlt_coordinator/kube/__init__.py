"""The coordinator in Kubernetes: leader election, state storage in the Lease, and metadata of workers' pods."""

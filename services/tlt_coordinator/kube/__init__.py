"""The coordinator as one of several replicas in Kubernetes: who leads, what outlives it, what pods say of workers."""

"""The coordinator in Kubernetes: its state in a ConfigMap, and metadata of the pods of its workers."""

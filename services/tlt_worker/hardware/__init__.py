"""The cores and GPUs of this machine."""

"""Idempotency keys of weight updates."""

import secrets
import time


def generated_key() -> str:
    """Return a new key. Greater than those generated earlier, so that the later of two updates of a version wins."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}"

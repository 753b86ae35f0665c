"""Entries of the cache's index."""

from tlt_cache.entry import Entry


def entry(
    sequence: int, *, policy: int = 0, length: int = 100, tokens: int = 10, request: str = "", size: int = 100
) -> Entry:
    """Return the entry of a frame, of a request of its own unless another is named."""
    return Entry(
        sequence=sequence,
        request_id=request or f"r{sequence}",
        policy_version=policy,
        tokens=tokens,
        size_bytes=size,
        response_tokens=length,
        finished=True,
    )

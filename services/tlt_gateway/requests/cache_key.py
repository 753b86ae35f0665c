"""Which requests may use one another's cached prefixes and what n-gram arms remember. Pure."""

from hashlib import sha256


def cache_key(salt: str, *, owner: str) -> str:
    """
    Return the key under which a prompt is cached: prompts with other keys find nothing of it.

    Args:
        salt: The caller's choice, within what is the owner's; empty without one.
        owner: Name of the caller's token; empty if all callers share.
    """
    if not (salt or owner):
        return ""
    return sha256(f"{len(owner)}:{owner}{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

"""By which fields callers separate what is cached for them."""


def salt_of(cache_salt: str | None, extra_key: str | None = None) -> str:
    """
    Return the salt of a prompt.

    Args:
        cache_salt: The field of vLLM's and SGLang's protocols.
        extra_key: That of SGLang's, which separates as well.
    """
    if not extra_key:
        return cache_salt or ""
    return f"{len(extra_key)}:{extra_key}:{cache_salt or ''}"

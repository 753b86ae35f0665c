"""Calls by which trainers that share their devices with an engine let it release memory."""

from collections.abc import Iterable

from tlt_common.errors import InvalidRequestError

TAGS = ("weights", "kv_cache", "cuda_graph")
"""What SGLang and vLLM can release."""
RESIDENT = "Nothing is released: weights, KV cache and graphs of target and drafter stay in the workers' memory."


def refuse_release(path: str, tags: Iterable[str] | None, *, field: str) -> None:
    """
    Refuse to release memory.

    Engines are started without SGLang's memory saver, so that neither a release nor what comes after it can spoil the
    drafter, its KV cache or the graphs of the arms.

    Raises:
        InvalidRequestError: Always; it names what was to be released.
    """
    asked = ", ".join(tags or TAGS)
    raise InvalidRequestError(
        f"{path} of {asked} is not supported: workers keep their memory, since drafters are trained on their devices "
        "while no request runs. If your trainer needs these devices, stop the workers first",
        field=field,
    )

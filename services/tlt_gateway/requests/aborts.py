"""Aborts that may arrive between two attempts at a response. Pure."""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import names_of

REMEMBERED_S = 900.0
"""Seconds for which an abort is remembered: longer than a client continues a response by default."""
MAX_REMEMBERED = 65_536
"""Ids remembered; beyond, the oldest are forgotten."""


class Aborts:
    """
    Recently aborted ids.

    A response that broke off is at no gateway until its client retries. An abort that arrives meanwhile takes effect
    when the next attempt arrives.
    """

    def __init__(self) -> None:
        self._until_s: OrderedDict[bytes, float] = OrderedDict()
        """End of the time of each owner's id, the earliest first. Digests, so that long ids take no more memory."""

    def remember(self, owner: str, request_ids: Iterable[RequestId], *, now_s: float) -> None:
        """Remember ids of an owner's requests, or of prompts in batches."""
        for request_id in request_ids:
            self._until_s[key := _key(owner, request_id)] = now_s + REMEMBERED_S
            self._until_s.move_to_end(key)
        while self._until_s and (len(self._until_s) > MAX_REMEMBERED or next(iter(self._until_s.values())) <= now_s):
            self._until_s.popitem(last=False)

    def concern(self, prompt: Prompt, *, now_s: float) -> bool:
        """
        Whether an arriving request is a retry of an aborted one.

        A first attempt is a new request, with or without a prefix. It never matches, and its id is forgotten.
        """
        names = [_key(prompt.owner, name) for name in names_of(prompt.request_id)]
        if prompt.attempt == 0:
            for name in names:
                self._until_s.pop(name, None)
            return False
        return any(self._until_s.get(name, now_s) > now_s for name in names)


def _key(owner: str, request_id: str) -> bytes:
    return blake2b(f"{len(owner)}:{owner}{request_id}".encode("utf-8", "surrogatepass"), digest_size=16).digest()

"""Responses that workers keep after their gateway was lost."""

from array import array
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import TltError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker

log = get_logger(__name__)


def keep_key(prompt: Prompt) -> str:
    """
    Return the key of a request: its owner, its id, and everything that its response depends on. Only a repetition of
    the same call by the same owner has the same key.
    """
    rest = replace(prompt, token_ids=(), prefix_token_ids=(), attempt=0, keep_key="", begun_version=None)
    found = sha256(repr(rest).encode("utf-8", "surrogatepass"))
    for tokens in (prompt.token_ids, prompt.prefix_token_ids):
        found.update(len(tokens).to_bytes(8, "big") + array("i", tokens).tobytes())
    return found.hexdigest()[:32]


async def taken(prompt: Prompt, workers: Iterable[PooledWorker]) -> TokenChunk | None:
    """Return the part of a prompt's response that a worker kept, or None if no worker kept any."""
    for worker in workers:
        if prompt.keep_key not in worker.kept:
            continue
        try:
            chunk = await worker.remote.take_kept(prompt.keep_key)
        except TltError as error:  # generated anew
            log.warning("kept_response_not_taken", worker=worker.name, error=error.message)
            continue
        if chunk is not None and (chunk.token_ids or chunk.finish_reason):
            log.info("response_continued", request_id=prompt.request_id, kept_by=worker.name)
            return chunk
    return None

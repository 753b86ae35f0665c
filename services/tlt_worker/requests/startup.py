"""
Computes responses of an earlier run, so that the spot trainer has training data before the run has responses.

The engine handles them like responses that other workers have begun: it computes the prompt and the response so far,
then one token, which is discarded. Pieces are short, since an arriving request waits for the one in progress; each
finds the previous one in the cache. They run ahead, under a lease, until the fleet has a drafter.
"""

import random
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.recorded_rollouts import RecordedRollout, RolloutFile
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.config import WorkerConfig

OWNER = "responses of an earlier run"
"""Whose prompts they are, as far as `Ahead` knows."""
CACHE_KEY = "startup"
"""Requests find nothing of them."""
PIECE_TOKENS = 1023
"""
Tokens that are computed at once: 2 x 7e9 operations each are 36 ms of an H100 at 40 % of its peak. Not measured.

The last token of the piece before is computed again, so that a piece fills frames of 256 states without a rest.
"""
MAX_TOKENS = 2**19
"""Tokens that a worker takes, at most: 2 GiB of states of 4096 bytes."""


def startup_prompts(config: WorkerConfig) -> tuple[Prompt, ...]:
    """
    Return the prompts that a worker computes first. Reads the whole file.

    Raises:
        ConfigError: The file cannot be read, or a line is invalid or does not fit the model; the message names line and
            key.
    """
    if config.startup_responses is None:
        return ()
    model = read_config(config.model)
    rollouts = RolloutFile(
        path=config.startup_responses,
        vocab_size=int(model["vocab_size"]),
        context_length=config.engine.context_for(model),
        option="startup_responses",
    )
    taken = chosen(rollouts, seed=config.worker_id, max_tokens=MAX_TOKENS)
    return tuple(prompt for rollout in taken for prompt in pieces(rollout))


def chosen(rollouts: Iterable[RecordedRollout], *, seed: str, max_tokens: int) -> list[RecordedRollout]:
    """Return a random subset of the responses, different on each worker, with at most this many tokens."""
    rng = random.Random(seed)
    heap, tokens = list[tuple[float, int, RecordedRollout]](), 0
    for number, rollout in enumerate(rollouts):
        heappush(heap, (-rng.random(), number, rollout))
        tokens += len(rollout.token_ids)
        while tokens > max_tokens:
            tokens -= len(heappop(heap)[2].token_ids)
    return [rollout for _, _, rollout in heap]


def pieces(rollout: RecordedRollout) -> Iterator[Prompt]:
    """Yield the requests that compute a response of more than one token, each a few tokens longer."""
    whole = len(rollout.response) - 1  # the last token is what the last state predicts
    done = -len(rollout.prompt)
    while done < whole > 0:
        done = min(whole, max(1, done + PIECE_TOKENS))
        yield Prompt(
            request_id=RequestId(""),
            token_ids=rollout.prompt,
            prefix_token_ids=rollout.response[:done],
            sampling=SamplingParams(max_new_tokens=done + 1, ignore_eos=True),
            cache_key=CACHE_KEY,
        )

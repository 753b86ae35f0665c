"""
Checks requests when they arrive in SGLang's scheduler, and refuses those that cannot be prepared.

On a GPU an index outside a tensor is not an exception but ends the process. The gateway and the worker check requests
too; this check is next to the code that relies on it.
"""

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any

from tlt_common.domain.bounds import require_ids
from tlt_common.errors import InvalidRequestError
from tlt_worker.scheduler.failures.recovery import recovery
from tlt_worker.scheduler.sampling.hooks import seeds_of
from tlt_worker.scheduler.sampling.logprobs import kinds_of
from tlt_worker.scheduler.sampling.penalties import prefix_of, require_penalty
from tlt_worker.scheduler.stopping import require_decodable

_ERR_TYPES = {HTTPStatus.BAD_REQUEST: "BadRequestError", HTTPStatus.INTERNAL_SERVER_ERROR: "InternalServerError"}


def check(arrived: Any, vocabulary: int, end_ids: Collection[int]) -> None:
    """
    Check the parameters of a request that a round reads.

    Raises:
        InvalidRequestError: A token id is outside the vocabulary, or a parameter is out of range; or it has stop
            strings and the tokenizer cannot be loaded.
    """
    require_ids("prompt.token_ids", arrived.input_ids, vocabulary)
    require_ids("sampling.stop_token_ids", sorted(arrived.sampling_params.stop_token_ids or ()), vocabulary)
    if not 0 <= prefix_of(arrived) < len(arrived.input_ids):
        raise InvalidRequestError(
            f"prompt.prefix_token_ids has {prefix_of(arrived)} tokens; accepted: fewer than {len(arrived.input_ids)}",
            field="prompt.prefix_token_ids",
        )
    require_penalty(arrived, vocabulary, end_ids)
    require_decodable(arrived)
    seeds_of([arrived], "cpu")
    kinds_of([arrived])


def refuse_what_fails(original: Callable[..., Any], self: Any, arrived: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.handle_generate_request`: a request that fails here ends without affecting others."""
    try:
        check(arrived, self.model_config.vocab_size, self.model_config.hf_eos_token_id or ())
        return original(self, arrived, **kw)
    except InvalidRequestError as error:
        _end(self, arrived, error.message, HTTPStatus.BAD_REQUEST)
    except Exception as error:  # noqa: BLE001 - see `recovery`
        with recovery(self, error, "arrive", [arrived.rid]):
            self.waiting_queue = [req for req in self.waiting_queue if req.rid != arrived.rid]
            _end(self, arrived, f"{type(error).__name__}: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)


def _end(scheduler: Any, arrived: Any, message: str, status: HTTPStatus) -> None:
    from sglang.srt.managers.io_struct import AbortReq

    reason = {"type": "abort", "message": message, "status_code": status, "err_type": _ERR_TYPES[status]}
    scheduler.send_abort_output(AbortReq(rid=arrived.rid, finished_reason=reason), arrived)

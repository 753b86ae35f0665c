"""Valid requests for gateway and worker, from which inputs differ."""

from tlt_bench.simulated_engine import SHAPE, TENSOR
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams
from tlt_common.domain.weights import TensorChunk, WeightsUpdate

PROMPT = Prompt(
    request_id=RequestId(""),
    token_ids=(1, 2, 3),
    sampling=SamplingParams(max_new_tokens=5, stop_token_ids=(7,), seed=1, logprobs=LogprobKind.RAW),
    prefix_token_ids=(4,),
)
UPDATE = WeightsUpdate(version=PolicyVersion(1), uri=None)
TENSORS = TensorChunk(name=TENSOR, dtype="F32", shape=SHAPE, offset_bytes=0, data=bytes(4 * SHAPE[0] * SHAPE[1]))

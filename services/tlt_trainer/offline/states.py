"""Hidden states of a policy over collected responses, as an engine captures them."""

from collections.abc import Iterator
from typing import Any

import torch

from tlt_common.domain.hidden import CapturePolicy, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_trainer.frame import TrainingFrame
from tlt_trainer.offline.rollouts import Rollout

FRAME_TOKENS = CapturePolicy().frame_tokens


@torch.inference_mode()
def frames_of(policy: Any, rollout: Rollout, name: str, *, frame_tokens: int = FRAME_TOKENS) -> Iterator[TrainingFrame]:
    """
    Yield the windows of a response, without those of prompt tokens alone.

    Args:
        policy: A transformers model without its head.
        rollout: At least two tokens in all.
        name: Request id of the frames.
        frame_tokens: Maximum states of a window.
    """
    ids = rollout.token_ids
    states_TH = policy(torch.tensor([ids], device=policy.device)).last_hidden_state[0].bfloat16().cpu()
    for start in range(0, len(ids) - 1, frame_tokens):
        end = min(start + frame_tokens, len(ids) - 1)
        if end - start < 2 or end <= len(rollout.prompt):
            continue
        yield TrainingFrame(
            header=FrameHeader(
                request_id=RequestId(name),
                policy_version=PolicyVersion(0),
                prompt_hash=prompt_hash(rollout.prompt),
                start=start,
                token_count=end - start,
                hidden_size=states_TH.shape[1],
                dtype="BF16",
                prompt_tokens=len(rollout.prompt),
                response_tokens=len(rollout.response),
                finished=end == len(ids) - 1,
            ),
            token_ids=torch.tensor(ids[start : end + 1], dtype=torch.int32),
            hidden=states_TH[start:end],
        )

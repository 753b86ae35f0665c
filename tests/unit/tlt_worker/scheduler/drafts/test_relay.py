"""What is gathered before a round: its last tokens, and proposals only if it drafts from them."""

from types import SimpleNamespace
from typing import Any

import torch

from tlt_worker.scheduler.drafts.relay import gather_proposals, gather_tokens


class Relay:
    """SGLang's buffers by request, as far as they are read here."""

    def __init__(self) -> None:
        self.output_tokens_buf = torch.tensor([10, 11, 12, 13])
        self.gathered = 0

    def gather(self, batch: Any) -> None:
        self.gathered += 1
        batch.spec_info.topk_p = torch.ones(len(batch.spec_info.future_indices))


def test_a_round_that_does_not_draft_gathers_tokens_only() -> None:
    relay, draft_input = Relay(), SimpleNamespace(future_indices=torch.tensor([3, 1]))
    gather_tokens(Relay.gather, relay, SimpleNamespace(spec_info=draft_input))
    assert draft_input.bonus_tokens.tolist() == [13, 11]
    assert relay.gathered == 0


def test_a_round_that_drafts_gathers_the_rest_once() -> None:
    relay, draft_input = Relay(), SimpleNamespace(future_indices=torch.tensor([2]))
    gather_tokens(Relay.gather, relay, SimpleNamespace(spec_info=draft_input))
    gather_proposals(draft_input)
    gather_proposals(draft_input)
    assert relay.gathered == 1
    assert draft_input.topk_p.tolist() == [1.0]


def test_without_overlap_there_is_nothing_to_gather() -> None:
    draft_input = SimpleNamespace(topk_p=torch.zeros(1))
    gather_proposals(draft_input)
    assert draft_input.topk_p.tolist() == [0.0]

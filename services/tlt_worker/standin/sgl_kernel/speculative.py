"""Support for n-gram speculation: reconstructs a tree's links from its mask."""

import torch
from torch import Tensor


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    verified_seq_len: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Fill positions and links from masks [B, N, N] in which node i sees its ancestors and itself."""
    batch, nodes = batch_size, draft_token_num
    earlier_N_N = torch.ones(nodes, nodes, dtype=torch.bool).tril(-1)
    ancestors_B_N_N = tree_mask.view(batch, nodes, nodes).to(torch.bool) & earlier_N_N
    positions.view(batch, nodes).copy_(ancestors_B_N_N.sum(-1) + verified_seq_len.view(batch, 1))
    retrive_index.view(batch, nodes).copy_(torch.arange(batch * nodes).view(batch, nodes))
    order_N = torch.arange(nodes)
    nearest_B_N = torch.where(ancestors_B_N_N, order_N, -1).amax(-1)
    child_B_N, sibling_B_N = torch.full((batch, nodes), -1), torch.full((batch, nodes), -1)
    for request, parents in enumerate(nearest_B_N.tolist()):
        for node in range(nodes - 1, 0, -1):
            if parents[node] >= 0:
                sibling_B_N[request, node] = child_B_N[request, parents[node]]
                child_B_N[request, parents[node]] = node
    retrive_next_token.view(batch, nodes).copy_(child_B_N)
    retrive_next_sibling.view(batch, nodes).copy_(sibling_B_N)

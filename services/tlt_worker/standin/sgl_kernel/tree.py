"""Draft trees: construction from scored candidates, and greedy verification."""

import torch
from torch import Tensor

_FULL_MASK = 0
"""Tree mask over the whole sequence; any other mode covers the draft tokens only."""


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    seq_lens: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """
    Fill mask, positions and links of each request's tree. Node 0 is the last accepted token.

    `selected_index` [B, nodes - 1] holds the chosen candidates, as indices into the concatenated draft steps;
    candidate c of step 0 has c < topk, and its parent's candidate is parent_list[c // topk].
    """
    del depth
    batch, nodes = seq_lens.numel(), draft_token_num
    if topk == 1:
        _build_chains(seq_lens, tree_mask, positions, retrieve_index, retrieve_next_token, nodes, int(tree_mask_mode))
        retrieve_next_sibling.fill_(-1)
        return
    parents = parent_list.view(batch, -1).tolist() if parent_list.numel() else [[]] * batch
    chosen = selected_index.view(batch, -1).tolist()
    written = 0
    for request, length in enumerate(seq_lens.tolist()):
        parent_of = _parents(parents[request], chosen[request], topk)
        visible_N_N = _ancestors(parent_of)
        positions.view(batch, nodes)[request] = length + visible_N_N.sum(1) - 1
        retrieve_index[request] = torch.arange(request * nodes, (request + 1) * nodes)
        children, siblings = _links(parent_of)
        retrieve_next_token[request] = torch.tensor(children)
        retrieve_next_sibling[request] = torch.tensor(siblings)
        written = _write_mask(tree_mask.view(-1), written, length, visible_N_N, int(tree_mask_mode))


def _build_chains(
    seq_lens: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    nodes: int,
    mode: int,
) -> None:
    batch = seq_lens.numel()
    order_N = torch.arange(nodes)
    positions.copy_((seq_lens.view(-1, 1) + order_N).view(-1))
    retrieve_index.copy_(torch.arange(batch * nodes).view(batch, nodes))
    next_N = order_N + 1
    next_N[-1] = -1
    retrieve_next_token.copy_(next_N.expand(batch, nodes))
    visible_N_N = torch.ones(nodes, nodes, dtype=torch.bool).tril()
    written = 0
    for length in seq_lens.tolist():
        written = _write_mask(tree_mask.view(-1), written, length, visible_N_N, mode)


def _write_mask(flat: Tensor, written: int, length: int, visible_N_N: Tensor, mode: int) -> int:
    nodes = visible_N_N.shape[0]
    width = length + nodes if mode == _FULL_MASK else nodes
    block = flat[written : written + nodes * width].view(nodes, width)
    block[:, : width - nodes] = True
    block[:, width - nodes :] = visible_N_N
    return written + nodes * width


def _parents(parent_list: list[int], chosen: list[int], topk: int) -> list[int]:
    """
    Return the parent of each node, -1 for none: the root, and nodes whose parent was not chosen.

    The best candidates need not form a tree: if the drafter is certain (probability 1), a child scores as high as its
    parent, and SGLang's top-k may choose either. Such a node is unconnected and never visited, as on a GPU.
    """
    node_of = {candidate: node + 1 for node, candidate in enumerate(chosen)}
    return [-1] + [0 if c // topk == 0 else node_of.get(parent_list[c // topk], -1) for c in chosen]


def _ancestors(parent_of: list[int]) -> Tensor:
    """Return [N, N] bool: the nodes visible to each node, itself included. Parents come before children."""
    visible = torch.eye(len(parent_of), dtype=torch.bool)
    for node, parent in enumerate(parent_of):
        if parent >= 0:
            visible[node] |= visible[parent]
    return visible


def _links(parent_of: list[int]) -> tuple[list[int], list[int]]:
    """Return the first child and the next sibling of each node, -1 for none; siblings are ordered by score."""
    children, siblings = [-1] * len(parent_of), [-1] * len(parent_of)
    for node in range(len(parent_of) - 1, 0, -1):
        if (parent := parent_of[node]) >= 0:
            siblings[node] = children[parent]
            children[parent] = node
    return children, siblings


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """
    Walk each tree along the target's argmax. Parameter names are those of the compiled operator.

    Writes `predicts` [B * N], `accept_index` [B, depth] (initialized to -1) and `accept_token_num` [B], without the
    bonus token.
    """
    batch, depth = accept_index.shape
    tokens, targets = candidates.tolist(), target_predict.view(batch, -1).tolist()
    index, child_of, sibling_of = retrive_index.tolist(), retrive_next_token.tolist(), retrive_next_sibling.tolist()
    flat = predicts.view(-1)
    for request in range(batch):
        node, path = 0, [index[request][0]]
        while True:
            target = targets[request][node]
            flat[index[request][node]] = target
            child = child_of[request][node] if len(path) < depth else -1
            while child != -1 and tokens[request][child] != target:
                child = sibling_of[request][child]
            if child == -1:
                break
            node = child
            path.append(index[request][node])
        accept_index[request, : len(path)] = torch.tensor(path, dtype=accept_index.dtype)
        accept_token_num[request] = len(path) - 1

"""
Walks draft trees along the tokens that the target draws.

At each node a token is drawn. The walk continues to the child that holds it and ends if there is none; the last drawn
token is the bonus token. If the draws follow the target, so does every token of the path, regardless of the drafts,
their order and repetitions.

Shapes: B requests, N nodes (tokens to verify) per request, D depth (longest path, root included), R requests still
walking.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTree:
    """Draft trees of a batch. Node 0 is the root; its token is already accepted."""

    tokens: Tensor
    """[B, N]"""
    parents: Tensor
    """[B, N]; -1 for nodes without one."""

    def child(self, rows_R: Tensor, nodes_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Return the first child of each node that holds the token, or -1."""
        fits_RN = self.parents[rows_R] == nodes_R.unsqueeze(1)
        fits_RN &= self.tokens[rows_R] == tokens_R.unsqueeze(1)
        return torch.where(fits_RN.any(1), fits_RN.to(torch.int8).argmax(1), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """Paths of the walks."""

    nodes: Tensor
    """[B, D]; -1 after the end."""
    tokens: Tensor
    """[B, D]: token drawn at the corresponding node; undefined after the end."""

    @property
    def kept(self) -> Tensor:
        """Accepted drafts of each request, [B]."""
        return (self.nodes >= 0).sum(1) - 1


def parents_of(child_BN: Tensor, sibling_BN: Tensor) -> Tensor:
    """Return the parent of every node [B, N], -1 for roots, from SGLang's first children and next siblings."""
    batch, nodes = child_BN.shape
    order_BN = torch.arange(nodes, device=child_BN.device).expand(batch, -1)
    # An extra column receives missing links.
    eldest = torch.arange(nodes + 1, device=child_BN.device).repeat(batch, 1)
    eldest.scatter_(1, torch.where(sibling_BN < 0, nodes, sibling_BN), order_BN)
    eldest[:, nodes] = nodes
    for _ in range(nodes.bit_length()):  # each iteration doubles the steps towards the eldest
        eldest = eldest.gather(1, eldest)
    parents = torch.full((batch, nodes + 1), -1, dtype=torch.int64, device=child_BN.device)
    parents.scatter_(1, torch.where(child_BN < 0, nodes, child_BN), order_BN)
    parents[:, nodes] = -1
    return parents.gather(1, eldest)[:, :nodes]


def walk(tree: DraftTree, depth: int, draw: Callable[[Tensor, Tensor], Tensor]) -> Walked:
    """
    Walk all trees at once. `draw(rows_R, nodes_R)` returns the token [R] drawn at a node of each row.

    Draws only at the nodes it visits, with shapes that depend on data.
    """
    batch, device = tree.tokens.shape[0], tree.tokens.device
    nodes_BD = torch.full((batch, depth), -1, dtype=torch.int64, device=device)
    tokens_BD = torch.zeros_like(nodes_BD)
    here_B = torch.zeros(batch, dtype=torch.int64, device=device)
    for level in range(depth):
        rows_R = (here_B >= 0).nonzero().view(-1)
        if not len(rows_R):
            break
        nodes_BD[:, level] = here_B
        drawn_R = draw(rows_R, here_B[rows_R])
        tokens_BD[rows_R, level] = drawn_R
        here_B[rows_R] = tree.child(rows_R, here_B[rows_R], drawn_R)
    return Walked(nodes=nodes_BD, tokens=tokens_BD)


def follow(tree: DraftTree, depth: int, drawn_BN: Tensor) -> Walked:
    """Walk along tokens drawn at every node, with fixed shapes: computes the next node of each node at once."""
    batch, nodes = drawn_BN.shape
    order_N1 = torch.arange(nodes, device=drawn_BN.device).view(-1, 1)
    fits_BNN = (tree.parents.unsqueeze(1) == order_N1) & (tree.tokens.unsqueeze(1) == drawn_BN.unsqueeze(2))
    next_BN = torch.where(fits_BNN.any(2), fits_BNN.to(torch.int8).argmax(2), nodes)
    # An extra node is the end, and its own successor.
    next_BN = torch.nn.functional.pad(next_BN, (0, 1), value=nodes)
    path = [torch.zeros(batch, 1, dtype=torch.int64, device=drawn_BN.device)]
    while len(path) < depth:
        path.append(next_BN.gather(1, path[-1]))
    nodes_BD = torch.cat(path, 1)
    tokens_BD = drawn_BN.gather(1, nodes_BD.clamp(max=nodes - 1))
    return Walked(nodes=torch.where(nodes_BD < nodes, nodes_BD, -1), tokens=tokens_BD)

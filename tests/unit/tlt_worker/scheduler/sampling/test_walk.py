"""Links of trees."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.sampling.walk import DraftTree, follow, parents_of, walk


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parents of each node; any node may be the parent of any later one."""
    nodes = draw(st.integers(1, 12))
    return [-1, *(draw(st.integers(0, node - 1)) for node in range(1, nodes))]


def links_of(parents: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """First children and next siblings, siblings in the order given."""
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node in order:
        if parents[node] >= 0:
            sibling[node], child[parents[node]] = child[parents[node]], node
    return child, sibling


@given(trees(), st.randoms())
def test_parents_are_found_from_children_and_siblings(parents: list[int], random: object) -> None:
    order = list(range(len(parents)))
    random.shuffle(order)  # type: ignore[attr-defined] # a random.Random
    child, sibling = links_of(parents, order)
    assert parents_of(torch.tensor([child, child]), torch.tensor([sibling, sibling])).tolist() == [parents, parents]


def test_nodes_that_belong_to_no_tree_have_no_parent() -> None:
    child, sibling = torch.tensor([[1, -1, -1]]), torch.tensor([[-1, -1, -1]])
    assert parents_of(child, sibling).tolist() == [[-1, 0, -1]]


def test_the_first_of_repeated_children_is_taken() -> None:
    tree = DraftTree(tokens=torch.tensor([[9, 4, 4, 5]]), parents=torch.tensor([[-1, 0, 0, 2]]))
    row = torch.tensor([0])
    assert tree.child(row, torch.tensor([0]), torch.tensor([4])).tolist() == [1]
    assert tree.child(row, torch.tensor([0]), torch.tensor([5])).tolist() == [-1]


@given(st.lists(trees(), min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 2**16))
def test_both_forms_take_the_same_path(rows: list[list[int]], depth: int, seed: int) -> None:
    generator, nodes = torch.Generator().manual_seed(seed), max(map(len, rows))
    parents = torch.tensor([row + [-1] * (nodes - len(row)) for row in rows])
    tokens, drawn = (torch.randint(0, 3, (len(rows), nodes), generator=generator) for _ in range(2))
    tree = DraftTree(tokens=tokens, parents=parents)
    one, other = follow(tree, depth, drawn), walk(tree, depth, lambda row, node: drawn[row, node])
    assert torch.equal(one.nodes, other.nodes)
    assert torch.equal(one.kept, other.kept)
    on_path = one.nodes >= 0
    assert torch.equal(one.tokens[on_path], other.tokens[on_path])

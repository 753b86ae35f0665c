"""Arms and their names."""

import pytest

from tlt_common.domain.arm import DEFAULT_ARMS, OFF, Arm, arm_named, block, chain, ngram, tree


@pytest.mark.parametrize(
    "arm",
    [
        *DEFAULT_ARMS,
        chain(16),
        chain(5, sampled=False),
        ngram(6),
        tree(3, 4, 8),
        tree(1, 4, 5),
        tree(3, 2, 11),
        block(1),
        block(15),
    ],
)
def test_every_arm_is_found_by_its_name(arm: Arm) -> None:
    assert arm_named(arm.name) == arm


def test_names_say_what_an_arm_does() -> None:
    names = [arm.name for arm in (OFF, chain(5), chain(5, sampled=False), ngram(6), tree(3, 4, 8), block(7))]
    assert names == ["off", "chain-5", "chain-5-top1", "ngram-6", "tree-3x4-8", "block-7"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "chain",
        "chain-0",
        "chain-17",
        "chain--1",
        "tree-3x1-4",
        "tree-17x4-20",
        "ngram-0",
        "off-1",
        "Chain-3",
        "block",
        "block-0",
        "block-17",
        "block-7-top1",
    ],
)
def test_an_arm_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"accepted: block-N .*; chain-N .*; ngram-N .*; off; tree-SxK-N"):
        arm_named(name)


@pytest.mark.parametrize("name", ["tree-3x4-3", "tree-3x2-12", "tree-16x16-129"])
def test_a_tree_that_cannot_have_so_many_nodes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"accepted: .* for .* branches"):
        arm_named(name)


def test_a_block_shows_what_a_shorter_arm_would_have_accepted_of_it() -> None:
    assert block(15).tells_of(block(7))
    assert not block(7).tells_of(block(15))
    assert not block(7).tells_of(chain(3))
    assert not chain(7).tells_of(block(3))

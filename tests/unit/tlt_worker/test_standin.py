"""The torch stand-in against plain statements of what the compiled operators do."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tlt_worker.engine.device import STANDIN_PATH


@pytest.fixture(scope="module")
def kernels() -> Iterator[ModuleType]:
    sys.path.insert(0, str(STANDIN_PATH))
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "sgl_kernel"}
    for name in before:
        del sys.modules[name]
    yield importlib.import_module("sgl_kernel")
    sys.path.remove(str(STANDIN_PATH))


def slow_attention(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor, sinks: Tensor | None = None) -> Tensor:
    """One request: query [E, H, D], keys and values [L, K, D], visible [E, L]; one head at a time."""
    share = query.shape[1] // keys.shape[1]
    heads = []
    for head in range(query.shape[1]):
        scores = query[:, head].double() @ keys[:, head // share].double().T * 0.25
        scores = scores.masked_fill(~visible, float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks[head].double().expand(len(scores), 1)], dim=1)
        weights = scores.softmax(-1)[:, : len(keys)]
        heads.append(weights @ values[:, head // share].double())
    return torch.stack(heads, 1).float()


class Cache:
    """A paged cache with requests of the given lengths, their slots scattered."""

    def __init__(self, lengths: list[int], *, heads: int = 4, kv_heads: int = 2, size: int = 16) -> None:
        torch.manual_seed(len(lengths))
        self.lengths, self.heads = lengths, heads
        self.keys, self.values = torch.randn(600, kv_heads, size), torch.randn(600, kv_heads, size)
        self.table = torch.randint(0, 600, (len(lengths) + 2, 256), dtype=torch.int32)
        slots = torch.randperm(600)
        self.rows = torch.randperm(len(lengths) + 2)[: len(lengths)]
        for row, length in zip(self.rows.tolist(), lengths, strict=True):
            self.table[row, :length], slots = slots[:length].int(), slots[length:]

    def of(self, place: int) -> tuple[Tensor, Tensor]:
        slots = self.table[self.rows[place], : self.lengths[place]].long()
        return self.keys[slots], self.values[slots]

    def extend(
        self, kernels: ModuleType, query: Tensor, extends: list[int], tree: Tensor | None = None, **options: Any
    ) -> Tensor:
        out = torch.empty_like(query)
        starts = torch.tensor([0, *extends]).cumsum(0)[:-1]
        kernels.extend_attention_cpu(
            query, None, None, out, self.keys, self.values, 1.0, 1.0, self.table, self.rows,
            torch.tensor(self.lengths), torch.tensor(extends), starts, max(extends), 0.25, 0.0, tree_mask=tree,
            **options,
        )  # fmt: skip
        return out


@pytest.mark.parametrize("kv_heads", [2, 4])
@pytest.mark.parametrize("lengths", [[5], [7, 7], [3, 60, 9], [100] * 5])
def test_decoding_attends_to_the_whole_request(kernels: ModuleType, lengths: list[int], kv_heads: int) -> None:
    cache = Cache(lengths, kv_heads=kv_heads)
    query, out = torch.randn(len(lengths), 4, 16), torch.empty(len(lengths), 4, 16)
    new_keys, new_values = torch.randn(len(lengths), kv_heads, 16), torch.randn(len(lengths), kv_heads, 16)
    last = torch.stack([cache.table[row, n - 1] for row, n in zip(cache.rows, lengths, strict=True)]).long()
    kernels.decode_attention_cpu(
        query, cache.keys, cache.values, 1.0, 1.0, out, new_keys, new_values, last, None, cache.table, cache.rows,
        torch.tensor(lengths), 0.25, 0.0,
    )  # fmt: skip
    assert torch.equal(cache.keys[last], new_keys)
    for place, length in enumerate(lengths):
        expected = slow_attention(query[place : place + 1], *cache.of(place), torch.ones(1, length, dtype=torch.bool))
        assert (out[place : place + 1] - expected).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("lengths", "extends"),
    [([20, 9], [4, 4]), ([20], [20]), ([50, 7, 30], [50, 3, 1]), ([90, 12, 40], [8, 8, 8]), ([80, 80], [40, 40])],
)
def test_extending_is_causal(kernels: ModuleType, lengths: list[int], extends: list[int]) -> None:
    cache, done = Cache(lengths), 0
    query = torch.randn(sum(extends), 4, 16)
    out = cache.extend(kernels, query, extends)
    for place, (length, extend) in enumerate(zip(lengths, extends, strict=True)):
        visible = torch.ones(extend, length, dtype=torch.bool).tril(length - extend)
        expected = slow_attention(query[done : done + extend], *cache.of(place), visible)
        assert (out[done : done + extend] - expected).abs().max() < 1e-4
        done += extend


@pytest.mark.parametrize(
    ("lengths", "extends"),
    [([20], [8]), ([90, 12, 40], [8, 8, 8]), ([30, 30], [5, 5]), ([50, 7], [3, 1]), ([80, 80], [40, 40])],
)
def test_tokens_of_a_block_see_each_other(kernels: ModuleType, lengths: list[int], extends: list[int]) -> None:
    cache, done = Cache(lengths), 0
    query = torch.randn(sum(extends), 4, 16)
    causal = cache.extend(kernels, query, extends)
    out = cache.extend(kernels, query, extends, is_causal=False)
    for place, (length, extend) in enumerate(zip(lengths, extends, strict=True)):
        visible = torch.ones(extend, length, dtype=torch.bool)
        expected = slow_attention(query[done : done + extend], *cache.of(place), visible)
        assert (out[done : done + extend] - expected).abs().max() < 1e-4
        done += extend
    assert (out - causal).abs().max() > 1e-2, "plans of both kinds are kept apart"


def test_tree_masks_cover_the_draft_tokens_only(kernels: ModuleType) -> None:
    cache = Cache([30, 11])
    trees = torch.eye(4, dtype=torch.bool).repeat(2, 1, 1)
    trees[:, 1:, 0] = True
    query = torch.randn(8, 4, 16)
    out = cache.extend(kernels, query, [4, 4], trees.flatten())
    for place, length in enumerate(cache.lengths):
        visible = torch.cat([torch.ones(4, length - 4, dtype=torch.bool), trees[place]], 1)
        expected = slow_attention(query[4 * place : 4 * place + 4], *cache.of(place), visible)
        assert (out[4 * place : 4 * place + 4] - expected).abs().max() < 1e-4


@pytest.mark.parametrize("window", [0, 5, 200])
@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize(
    ("lengths", "extends"), [([20, 9], [4, 4]), ([20], [20]), ([50, 7, 30], [50, 3, 1]), ([80, 80], [40, 40])]
)
def test_windows_and_sinks(
    kernels: ModuleType, lengths: list[int], extends: list[int], with_sinks: bool, window: int
) -> None:
    cache, done, sinks = Cache(lengths), 0, torch.randn(4) if with_sinks else None
    query, seen = torch.randn(sum(extends), 4, 16), window or 1000
    out = cache.extend(kernels, query, extends, sliding_window=window, sinks=sinks)
    last_query, last = torch.randn(len(lengths), 4, 16), torch.empty(len(lengths), 4, 16)
    kernels.decode_attention_cpu(
        last_query, cache.keys, cache.values, 1.0, 1.0, last, None, None, None, None, cache.table, cache.rows,
        torch.tensor(lengths), 0.25, 0.0, sliding_window=window, sinks=sinks,
    )  # fmt: skip
    for place, (length, extend) in enumerate(zip(lengths, extends, strict=True)):
        visible = torch.ones(extend, length, dtype=torch.bool).tril(length - extend).triu(length - extend - seen + 1)
        expected = slow_attention(query[done : done + extend], *cache.of(place), visible, sinks)
        assert (out[done : done + extend] - expected).abs().max() < 1e-4
        one = last_query[place : place + 1]
        expected = slow_attention(one, *cache.of(place), torch.arange(length)[None] >= length - seen, sinks)
        assert (last[place : place + 1] - expected).abs().max() < 1e-4
        done += extend


def test_a_tree_within_a_window_is_refused(kernels: ModuleType) -> None:
    cache, tree = Cache([6]), torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="no trees within a sliding window"):
        cache.extend(kernels, torch.randn(2, 4, 16), [2], tree, sliding_window=4)


def test_a_plan_is_not_used_for_the_next_pass(kernels: ModuleType) -> None:
    cache = Cache([6, 6])
    lengths, query = torch.tensor([6, 6]), torch.randn(2, 4, 16)
    outs = []
    for _ in range(2):
        out = torch.empty(2, 4, 16)
        kernels.decode_attention_cpu(
            query, cache.keys, cache.values, 1.0, 1.0, out, None, None, None, None, cache.table, cache.rows,
            lengths, 0.25, 0.0,
        )  # fmt: skip
        outs.append(out)
        lengths -= 3  # in place, as a scheduler may
    keys, values = cache.of(0)
    expected = slow_attention(query[:1], keys[:3], values[:3], torch.ones(1, 3, dtype=torch.bool))
    assert (outs[1][:1] - expected).abs().max() < 1e-4


def test_features_it_has_not_are_refused(kernels: ModuleType) -> None:
    cache = Cache([4])
    with pytest.raises(NotImplementedError, match="logit cap"):
        kernels.decode_attention_cpu(
            torch.randn(1, 4, 16), cache.keys, cache.values, 1.0, 1.0, torch.empty(1, 4, 16), None, None, None, None,
            cache.table, cache.rows, torch.tensor([4]), 0.25, 30.0,
        )  # fmt: skip


@pytest.mark.parametrize("mode", [0, 1])
def test_trees_are_built_from_scored_candidates(kernels: ModuleType, mode: int) -> None:
    # Two branches per step: candidates 0 and 1 of the first step, 2..3 below candidate 0, 4..5 below candidate 1.
    parents, chosen = torch.tensor([[-1, 0, 1]]), torch.tensor([[0, 1, 2, 4]])
    lengths, nodes = torch.tensor([3]), 5
    width = nodes + (3 if mode == 0 else 0)
    mask, positions = torch.zeros(nodes * width, dtype=torch.bool), torch.zeros(nodes, dtype=torch.int64)
    index, child, sibling = (torch.full((1, nodes), -1) for _ in range(3))
    kernels.build_tree_kernel_efficient_cpu(
        parents, chosen, lengths, mask, positions, index, child, sibling, 2, 2, nodes, mode
    )
    assert positions.tolist() == [3, 4, 4, 5, 5]
    assert child.tolist() == [[1, 3, 4, -1, -1]]
    assert sibling.tolist() == [[-1, 2, -1, -1, -1]]
    sees = mask.view(nodes, width)[:, -nodes:]
    assert sees[3].tolist() == [True, True, False, True, False]
    assert sees[4].tolist() == [True, False, True, False, True]
    assert bool(mask.view(nodes, width)[:, :-nodes].all())


def test_a_node_whose_parent_was_not_chosen_is_left_alone(kernels: ModuleType) -> None:
    parents, chosen = torch.tensor([[-1, 0, 1]]), torch.tensor([[0, 2, 4]])  # 4 hangs on 1
    mask, positions = torch.zeros(16, dtype=torch.bool), torch.zeros(4, dtype=torch.int64)
    index, child, sibling = (torch.full((1, 4), -1) for _ in range(3))
    kernels.build_tree_kernel_efficient_cpu(
        parents, chosen, torch.tensor([3]), mask, positions, index, child, sibling, 2, 2, 4, 1
    )
    assert child.tolist() == [[1, 2, -1, -1]]
    assert sibling.tolist() == [[-1, -1, -1, -1]]
    assert mask.view(4, 4)[3].tolist() == [False, False, False, True]


def test_chains_are_trees_of_one_branch(kernels: ModuleType) -> None:
    mask, positions = torch.zeros(2 * 9, dtype=torch.bool), torch.zeros(6, dtype=torch.int64)
    index, child, sibling = (torch.full((2, 3), 9) for _ in range(3))
    kernels.build_tree_kernel_efficient_cpu(
        torch.empty(0), torch.tensor([[0, 1]] * 2), torch.tensor([5, 2]), mask, positions, index, child, sibling,
        1, 2, 3, 1,
    )  # fmt: skip
    assert positions.tolist() == [5, 6, 7, 2, 3, 4]
    assert child.tolist() == [[1, 2, -1]] * 2
    assert sibling.tolist() == [[-1] * 3] * 2
    assert mask.view(2, 3, 3)[1].tolist() == torch.ones(3, 3).tril().bool().tolist()


def test_greedy_verification_walks_along_the_argmax(kernels: ModuleType) -> None:
    candidates = torch.tensor([[9, 1, 2, 3, 4]])
    child, sibling = torch.tensor([[1, 3, 4, -1, -1]]), torch.tensor([[-1, 2, -1, -1, -1]])
    predicts, path, kept = torch.zeros(5, dtype=torch.int32), torch.full((1, 3), -1), torch.zeros(1, dtype=torch.int32)
    wanted = torch.tensor([[2, 7, 4, 7, 6]])
    kernels.verify_tree_greedy_cpu(predicts, path, kept, candidates, torch.arange(5).view(1, 5), child, sibling, wanted)
    assert path.tolist() == [[0, 2, 4]]
    assert kept.tolist() == [2]
    assert predicts[[0, 2, 4]].tolist() == [2, 4, 6]


def test_slots_are_written_and_read_by_position(kernels: ModuleType) -> None:
    table, rows = torch.zeros(3, 10, dtype=torch.int32), torch.tensor([2, 0])
    low, high = torch.tensor([1, 4]), torch.tensor([3, 7])
    kernels.assign_req_to_token_pool_cpu(rows, table, low, high, torch.tensor([11, 12, 21, 22, 23]), 10)
    assert table[2].tolist() == [0, 11, 12, 0, 0, 0, 0, 0, 0, 0]
    out = torch.zeros(5, dtype=torch.int64)
    kernels.assign_extend_cache_locs_cpu(rows, table, low, high, out, 10)
    assert out.tolist() == [11, 12, 21, 22, 23]
    drafts = torch.zeros(4, dtype=torch.int64)
    kernels.assign_draft_cache_locs_contiguous_cpu(rows, table, torch.tensor([1, 5]), drafts, 10, 1, 2)
    assert drafts.tolist() == [11, 12, 22, 23]


def test_small_bookkeeping(kernels: ModuleType) -> None:
    bonus = torch.zeros(2, dtype=torch.int32)
    kernels.fill_bonus_tokens_cpu(torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([1, 3]), bonus, 3)
    assert bonus.tolist() == [1, 6]
    kept = torch.zeros(3, dtype=torch.int64)
    kernels.fill_accept_out_cache_loc_cpu(torch.tensor([[0, -1], [2, 1]]), torch.tensor([10, 11, 12]), kept)
    assert kept.tolist() == [10, 12, 11]
    ids = torch.tensor([1, 2, 3, 4, 5])
    kernels.rotate_input_ids_cpu(ids, torch.tensor([0, 3]), torch.tensor([3, 2]), torch.tensor([[8], [9]]))
    assert ids.tolist() == [2, 3, 8, 5, 9]
    table = torch.arange(12).view(1, 12)
    rows = kernels.build_draft_decode_metadata_cpu(table, torch.tensor([0]), torch.tensor([3]), 2, 2, 12)
    assert rows[:, 3:5].tolist() == [[3, 4], [5, 6]]
    buffer = torch.arange(8, dtype=torch.float32).view(4, 2)
    kernels.copy_all_layer_kv_cache_cpu(
        torch.tensor([buffer.data_ptr()]), torch.tensor([8]), torch.tensor([1, 0]), torch.tensor([0, 3])
    )
    assert buffer.tolist() == [[6, 7], [0, 1], [4, 5], [6, 7]]


def test_the_hash_is_murmur3(kernels: ModuleType) -> None:
    def murmur(blocks: list[int]) -> int:
        state, mask = 0, 0xFFFFFFFF
        for block in blocks:
            k = block * 0xCC9E2D51 & mask
            k = ((k << 15) | (k >> 17)) & mask
            state ^= k * 0x1B873593 & mask
            state = ((state << 13) | (state >> 19)) & mask
            state = (state * 5 + 0xE6546B64) & mask
        state ^= 4 * len(blocks)
        state = ((state ^ (state >> 16)) * 0x85EBCA6B) & mask
        state = ((state ^ (state >> 13)) * 0xC2B2AE35) & mask
        return state ^ (state >> 16)

    seed = 0x1234_5678_9ABC_DEF0
    found = kernels.murmur_hash32_cpu(torch.tensor([seed]), torch.tensor([77]), torch.tensor([0, 5]))
    expected = [murmur([seed & 0xFFFFFFFF, seed >> 32, 77, column]) for column in (0, 5)]
    assert found.to(torch.int64).tolist() == [expected]

"""Arms, models and thresholds for planners."""

from dataclasses import replace

from hypothesis import strategies as st

from tlt_common.bandit import BanditConfig
from tlt_common.domain.arm import Arm, chain, ngram, tree
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.plan import Question
from tlt_worker.capacity.shape import ModelShape

SMALL = ModelShape(layers=4, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=1000, element_bytes=2)
trees = st.tuples(st.integers(1, 8), st.integers(2, 8), st.integers(1, 32)).map(
    lambda sizes: tree(sizes[0], sizes[1], sizes[0] + min(sizes[2], sizes[1]))
)
arms = st.one_of(
    st.builds(chain, st.integers(1, 16), sampled=st.booleans()), st.builds(ngram, st.integers(1, 16)), trees
)
sets = st.lists(arms, max_size=5, unique=True).map(tuple)
shapes = st.builds(
    ModelShape,
    layers=st.integers(1, 80),
    hidden=st.integers(1, 64).map(lambda units: units * 128),
    heads=st.integers(1, 64),
    kv_heads=st.integers(1, 8),
    head_dim=st.sampled_from([64, 128]),
    intermediate=st.integers(128, 32768),
    vocab=st.integers(16, 200_000),
    element_bytes=st.sampled_from([2, 4]),
).flatmap(
    lambda shape: st.sampled_from([1, 3]).map(
        lambda states: replace(shape, draft=replace(shape.drafter, states=states, captured=states + (states > 1)))
    )
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Anything an engine may ask, with thresholds per group of tokens to verify, without a budget."""
    chosen: tuple[Arm, ...] = draw(sets)
    limits = {arm.draft_tokens: draw(st.integers(1, 40)) for arm in chosen}
    thresholds = BanditConfig(speculate_below_requests=draw(st.integers(1, 48)), group_below_requests=limits)
    costs = Costs(
        model=draw(shapes),
        context_length=draw(st.integers(64, 40_000)),
        tensor_parallel=draw(st.sampled_from([1, 2, 8])),
        shared_logits=draw(st.booleans()),
    )
    return Question(arms=chosen, costs=costs, max_batch=draw(st.integers(1, 48)), allows=thresholds.allows)

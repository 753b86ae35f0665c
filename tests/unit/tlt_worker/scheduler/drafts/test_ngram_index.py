from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.drafts.ngram_index import KEPT_RESPONSES, LENGTHS, MAX_REQUESTS, NgramIndex

MIB = 2**20
PLENTY = 64 * MIB
PROMPT = (1, 2, 3, 4, 5, 6, 7, 8, 9)

tokens = st.lists(st.integers(0, 3), max_size=30)
told = st.lists(st.tuples(st.integers(0, 3), tokens, st.booleans()), max_size=25)
"""What is heard: which of four requests, its new tokens, whether it is then finished."""


def index_of(*responses: Sequence[int], prompt: Sequence[int] = PROMPT) -> NgramIndex:
    """An index with a running request "0", "1", ... for each response."""
    index = NgramIndex(PLENTY)
    for number, response in enumerate(responses):
        index.begin(str(number), prompt)
        index.extend(str(number), response)
    return index


class Oracle:
    """The same by looking through everything."""

    def __init__(self, prompt: list[int]) -> None:
        self.prompt = prompt
        self.running: dict[str, list[int]] = {}
        self.finished: list[list[int]] = []

    def draft(self, request: str, steps: int) -> list[int]:
        own = self.running[request]
        sources = [own, self.prompt, *(text for name, text in self.running.items() if name != request), *self.finished]
        drafts: list[int] = []
        while len(drafts) < steps and (piece := self._continuation(sources, own + drafts)):
            drafts += piece[: steps - len(drafts)]
        return drafts

    @staticmethod
    def _continuation(sources: list[list[int]], tail: list[int]) -> list[int]:
        for length in LENGTHS:
            for text in sources:
                for end in range(len(text) - 1, length - 1, -1):
                    if len(tail) >= length and text[end - length : end] == tail[-length:]:
                        return text[end:]
        return []


def play(index: NgramIndex, oracle: Oracle, heard: list[tuple[int, list[int], bool]]) -> Iterator[str]:
    """Tell both; yields the requests that run."""
    for number, new, ends in heard:
        name = str(number)
        if index.length(name) is None:
            index.begin(name, oracle.prompt)
            oracle.running[name] = oracle.prompt[-LENGTHS[0] :]
        index.extend(name, new)
        oracle.running[name] = oracle.running[name] + new
        if ends:
            index.finish(name, index.length(name) or 0)
            text = oracle.running.pop(name)
            if len(text) > len(oracle.prompt[-LENGTHS[0] :]):
                oracle.finished.insert(0, text)
        else:
            yield name


@given(st.lists(st.integers(0, 3), max_size=20), told, st.integers(1, 7))
def test_drafts_are_those_of_a_search_through_all_texts(
    prompt: list[int], heard: list[tuple[int, list[int], bool]], steps: int
) -> None:
    index, oracle = NgramIndex(PLENTY), Oracle(prompt)
    for name in play(index, oracle, heard[: KEPT_RESPONSES - 1]):
        assert index.draft(name, steps) == oracle.draft(name, steps)


@given(told, st.integers(0, 40_000))
def test_memory_is_counted_right_and_stays_within_its_limit(
    heard: list[tuple[int, list[int], bool]], limit: int
) -> None:
    index = NgramIndex(limit)
    for number, new, ends in heard:
        name = str(number)
        if index.length(name) is None:
            index.begin(name, [*PROMPT, number])
        index.extend(name, new)
        index.draft(name, 3)
        if ends:
            index.finish(name, len(new) // 2)
        assert index.size_bytes == sum(group.size_bytes for group in index._groups.values())
    index.begin("last", PROMPT)
    assert index.size_bytes <= limit


def test_the_longest_run_decides() -> None:
    assert index_of([20, 21, 30], [9, 40, 41, 20, 21, 33], [20, 21, 32, 40, 41, 20, 21]).draft("2", 1) == [33]


def test_among_equals_the_own_text_comes_first_then_running_siblings_then_finished_responses() -> None:
    index = index_of([20, 21, 33], [20, 21, 32], [20, 21, 31, 20, 21])
    assert index.draft("2", 1) == [31]
    index.begin("3", PROMPT)
    index.extend("3", [20, 21])
    index.finish("0", 3)
    index.finish("2", 5)
    assert index.draft("3", 1) == [32]
    index.finish("1", 3)
    assert index.draft("3", 1) == [32]


def test_the_newest_occurrence_is_taken() -> None:
    assert index_of([20, 21, 30, 20, 21, 31, 20, 21]).draft("0", 2) == [31, 20]


def test_where_a_text_ends_the_search_goes_on() -> None:
    assert index_of([20, 21] * 3).draft("0", 7) == [20, 21, 20, 21, 20, 21, 20]


def test_the_first_tokens_are_found_by_the_end_of_the_prompt() -> None:
    assert index_of([20, 21, 22], []).draft("1", 3) == [20, 21, 22]


def test_the_prompt_is_a_source() -> None:
    assert index_of([2, 3]).draft("0", 2) == [4, 5]


def test_other_prompts_responses_are_not() -> None:
    index = index_of([20, 21, 22])
    index.begin("other", (11, 12))
    index.extend("other", [20, 21])
    assert index.draft("other", 1) == []


def test_a_new_epoch_finds_the_responses_of_the_one_before() -> None:
    index = index_of([20, 21, 22, 23])
    index.finish("0", 3)
    index.begin("1", PROMPT)
    index.extend("1", [20])
    assert index.draft("1", 3) == [21, 22]  # what was said beyond the end is not kept


def test_of_finished_responses_the_newest_are_kept() -> None:
    index = NgramIndex(PLENTY)
    for number in range(100):
        index.begin(str(number), PROMPT)
        index.extend(str(number), [100, number, 200])
        index.finish(str(number), 3)
    for number, kept in ((99 - KEPT_RESPONSES, False), (100 - KEPT_RESPONSES, True), (99, True)):
        index.begin("next", PROMPT)
        index.extend("next", [100, number])
        assert (index.draft("next", 1) == [200]) is kept


def test_requests_that_finish_leave_no_more_than_is_kept_of_them() -> None:
    index = NgramIndex(PLENTY)
    sizes = []
    for epoch in range(20):
        for number in range(200):
            name = f"{epoch}/{number}"
            index.begin(name, (1, 2, number % 5))
            index.extend(name, range(50))
            index.finish(name, 50)
        sizes.append(index.size_bytes)
    assert sizes == [sizes[0]] * 20
    assert not index._requests


def test_requests_that_are_never_heard_of_again_stay_within_the_limit() -> None:
    index = NgramIndex(MIB)
    for number in range(3 * MAX_REQUESTS):
        index.begin(str(number), (1, 2, number % 999))
        index.extend(str(number), range(20))
        assert index.size_bytes <= MIB
    assert len(index._requests) == MAX_REQUESTS
    running = sum(len(group.running) for group in index._groups.values())
    assert running <= MAX_REQUESTS


def test_the_prompt_used_longest_ago_leaves_first() -> None:
    index = NgramIndex(MIB)
    for number in range(500):
        index.begin(str(number), (number, 1))
        index.extend(str(number), range(100))
        assert index.draft("0", 1) == []
    assert index._requests["0"].prompt in index._groups
    assert index._requests["1"].prompt not in index._groups


def test_a_request_whose_texts_had_to_leave_goes_on_from_there() -> None:
    index = NgramIndex(MIB)
    index.begin("long", PROMPT)
    for start in range(0, 20_000, 10):
        index.extend("long", range(start, start + 10))
        assert index.size_bytes <= MIB
    assert index.length("long") == 20_000
    index.extend("long", [5, 6, 7, 5, 6])
    assert index.draft("long", 1) == [7]
    index.finish("long", 20_005)
    assert not index._requests


def test_requests_with_another_key_find_nothing_of_one_another() -> None:
    index = NgramIndex(1 << 20)
    text = list(range(100, 140))
    index.begin("first", text[:8], "mine")
    index.extend("first", text[8:])
    index.finish("first", len(text) - 8)
    for name, key, drafts in (("same", "mine", text[8:12]), ("other", "theirs", []), ("none", "", [])):
        index.begin(name, text[:8], key)
        assert index.draft(name, 4) == drafts

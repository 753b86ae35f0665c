"""A made-up run, shaped like a real one, and what its page says."""

import json
import math
import random
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from countdown.figures import figures
from countdown.fresh import FreshScores, PromptScore
from countdown.job import subject_of
from countdown.record import GIVEN, Difference, Interval, Pairs, Response, Rollout, Run, Side, Step, Swap
from countdown.report import last_screen, write_report
from countdown.report.chart import draw
from countdown.report.facts import compare_rewards, facts
from countdown.report.palette import SHADES
from countdown.report.timeline import document_in, track_of
from countdown.report.words import training
from countdown.settings import LAYERS, SERVED_LAYERS
from countdown.subject import Subject
from tlt_bench.rollout import result
from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline import STATES, UNKNOWN, LaneRow, TimelineDocument, Window
from tlt_coordinator.http.embedded import script

WORKERS = ("worker-0", "worker-1", "worker-2")
CAP_TOKENS = 1024


class Story:
    """
    Records a run as it would have gone: time only moves forward, every worker is in one state at a time.

    With `paired`, both sides of a step generate the same responses; one response of step 5 differs.
    """

    def __init__(self, *, paired: bool = True, seed: int = 0, began_s: float = 1_760_000_000.0) -> None:
        self.paired = paired
        self.rng = random.Random(seed)
        self.began_s = began_s
        self.now_s = began_s
        self.steps: list[Step] = []
        self.intervals: list[Interval] = []
        self.swaps: list[Swap] = []
        self.lent_s = 0.0

    def run(self, count: int) -> Run:
        for index in range(count):
            self.step(index, shift=min(1.0, max(0, index - 4) / 4))
        return Run(
            began_unix_s=self.began_s - 40,
            ended_unix_s=self.now_s + 3,
            start_up_s=37.2,
            machine="2 x CPU <test>, 8 GiB",
            versions={"tlt": "0.1.0", "sglang": "0.5.23", "python": "3.12"},
            settings={"workers": "3", "prompts per step": "12", "responses per prompt": "4", "cap": "1024 tokens"},
            steps=tuple(self.steps),
            intervals=tuple(self.intervals),
            swaps=tuple(self.swaps),
        )

    def step(self, index: int, *, shift: float) -> None:
        order: tuple[Side, Side] = ("on", "off") if index % 2 == 0 else ("off", "on")
        sides: tuple[Side, ...] = order if self.swaps else ("on",)
        rollouts = tuple(self.rollout(side, shift, random.Random(index)) for side in sides)
        began, learn_s = self.now_s, self.rng.uniform(3.0, 4.0)
        ledger = self.spend([(worker, began, began + learn_s) for worker in WORKERS], lend=True)
        mix = {2: 1 - shift, 3: 0.7 * shift, 4: 0.3 * shift}
        self.steps.append(
            Step(
                index=index,
                mix=mix,
                rollouts=rollouts,
                learn_began_unix_s=began,
                learn_s=learn_s,
                learn_ledger=ledger,
                pairs=self.pairs(index) if self.paired and len(sides) == 2 else None,
            )
        )
        self.now_s = began + learn_s + 0.4

    def pairs(self, index: int) -> Pairs:
        differences = (Difference(prompt=7, sample=1, token=31, gap=0.001),) if index == 5 else ()
        return Pairs(responses=48, differences=differences, max_logprob_gap=2e-5)

    def rollout(self, side: Side, shift: float, seeded: random.Random) -> Rollout:
        draw = seeded if self.paired else self.rng
        version = len(self.swaps)
        accept = 1.0 if side == "off" or not version else 1.2 + 2.2 * (1 - math.exp(-version / 5)) - 0.3 * shift
        began, responses, ended_s = self.now_s, [], dict.fromkeys(WORKERS, 0.0)
        for at in range(48):
            tokens = min(CAP_TOKENS, int(draw.lognormvariate(4.2 + 0.7 * shift, 0.9)) + 8)
            correct = draw.random() < 0.85 - 0.25 * shift and tokens < CAP_TOKENS
            rounds = max(1, round(tokens / (accept * self.rng.uniform(0.9, 1.1)))) if accept > 1 else tokens
            finished_s = 0.4 + 0.024 * rounds
            ended_s[WORKERS[at % 3]] = max(ended_s[WORKERS[at % 3]], finished_s)
            reward = float(correct) - 0.3 * tokens / CAP_TOKENS
            responses.append(
                Response(
                    prompt=at // 4,
                    sample=at % 4,
                    tokens=tokens,
                    finished_s=finished_s,
                    reward=reward,
                    correct=correct,
                    rounds=rounds,
                )
            )
        seconds = max(ended_s.values()) + 0.05
        for worker, until_s in ended_s.items():
            self.note(worker, "rollout", began, began + until_s)
        dry = [(worker, began + until_s, began + seconds) for worker, until_s in ended_s.items()]
        ledger = self.spend(dry, lend=side == "on")
        self.now_s = began + seconds
        return Rollout(
            side=side,
            began_unix_s=began,
            seconds=seconds,
            responses=tuple(responses),
            ledger={**ledger, "rollout": sum(ended_s.values())},
            drafter_version=len(self.swaps),
        )

    def spend(self, bubbles: list[tuple[str, float, float]], *, lend: bool) -> dict[str, float]:
        """Fill bubbles: settle, switch, train, and now and then publish."""
        spent: dict[str, float] = {}
        for worker, began, ended in bubbles:
            parts = (("idle", 0.4), ("switching", 0.15), ("training", 1e9)) if lend else (("idle", 1e9),)
            at = began
            for state, length_s in parts:
                until = min(ended, at + length_s)
                self.note(worker, state, at, until)
                spent[state] = spent.get(state, 0.0) + until - at
                at = until
            self.lent_s += spent.get("training", 0.0) / len(WORKERS)
            if self.lent_s > 6.0:
                self.lent_s = 0.0
                top1 = 0.85 - 0.6 * math.exp(-len(self.swaps) / 5)
                self.swaps.append(Swap(version=len(self.swaps) + 1, at_unix_s=ended, held_out_top1=top1, worker=worker))
        return spent

    def note(self, worker: str, state: str, began: float, ended: float) -> None:
        if ended > began:
            self.intervals.append(Interval(worker=worker, state=state, began_unix_s=began, ended_unix_s=ended))


class Outline(HTMLParser):
    """Ids, and elements that would fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag in {"link", "img", "iframe", "image", "object"}:
            self.fetched.append(tag)
        self.fetched += [value for name, value in attrs if name == "src" and value]


@pytest.fixture(scope="module")
def run() -> Run:
    return Story().run(11)


@pytest.fixture(scope="module")
def page(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = write_report(run, tmp_path_factory.mktemp("report"))
    assert path.name == "report.html"
    return path.read_text(encoding="utf-8")


def test_the_page_needs_nothing_else(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    assert not outline.fetched
    assert not re.search(r"@import|url\((?!#)", page)
    assert len(page) < 2_000_000


def test_ids_of_inline_drawings_do_not_meet(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    assert len(outline.ids) == len(set(outline.ids))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', page)) <= set(outline.ids)


def test_every_promised_plot_is_there_and_follows_the_scheme(page: str) -> None:
    assert page.count("<svg ") == 6
    assert page.count("<canvas class=timeline ") == 3
    drawings = "".join(re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL))
    assert not [shade for shade in SHADES.values() if shade.light in drawings]
    assert "prefers-color-scheme:dark" in page


def test_the_headline_is_what_the_figures_say(run: Run, page: str) -> None:
    found = figures(run)
    assert f"{found['step_speedup'].value:.2f}&times;" in page
    assert f"{found['tail_speedup'].value:.2f}&times;" in page
    assert f"{found['accept_length_cold'].value:.2f} &rarr; {found['accept_length_last'].value:.2f}" in page
    for name in found:
        assert f"<code>{name}</code>" in page


def test_text_of_the_run_is_escaped(page: str) -> None:
    assert "2 x CPU &lt;test&gt;" in page
    assert "<test>" not in page


def test_the_page_lists_where_responses_differ(run: Run, page: str) -> None:
    count = 48 * len(run.compared)
    assert f"<b>{count - 1} of {count}</b> responses are identical" in page
    assert "step 5, prompt 7, sample 1, token 31: the logprobs of the two tokens differ by 0.0010" in page
    assert "with identical responses" not in page


def test_identical_responses_have_one_reward(run: Run, tmp_path: Path) -> None:
    same = tuple(step for step in run.steps if not step.pairs or not step.pairs.differences)
    clean = run.model_copy(update={"steps": same})
    page = write_report(clean, tmp_path).read_text(encoding="utf-8")
    assert "with identical responses" in page
    assert "The responses are identical, so the rewards are too" in page
    assert "identical token for token" in last_screen(clean, tmp_path)
    assert "without" not in last_screen(clean, tmp_path).splitlines()[1].replace("with and without", "")


def test_sides_without_seeds_are_compared_as_two_samples(tmp_path: Path) -> None:
    sampled = Story(paired=False).run(11)
    page = write_report(sampled, tmp_path).read_text(encoding="utf-8")
    assert page.count("<svg ") == 7
    assert "Kolmogorov-Smirnov distance of the rewards" in page
    assert "independent samples" in last_screen(sampled, tmp_path)


def test_a_run_without_drafter_says_so(tmp_path: Path, run: Run) -> None:
    bare = run.model_copy(update={"swaps": (), "intervals": (), "steps": run.steps[:1]})
    text = write_report(bare, tmp_path).read_text(encoding="utf-8")
    assert "No step of this run began with a drafter" in text
    assert "The mix of problems did not change" in text
    assert len(last_screen(bare, tmp_path).splitlines()) == 4


def test_the_drafter_at_the_start_is_compared_with_the_newest(run: Run, tmp_path: Path) -> None:
    frozen, adapted = (
        tuple(PromptScore(tokens=100, accepted=(share, share)) for share in shares)
        for shares in ((0.4, 0.5), (0.5, 0.6))
    )
    scored = run.model_copy(update={"fresh": FreshScores(temperature=0.6, frozen=frozen, adapted=adapted)})
    page, screen = write_report(scored, tmp_path).read_text(encoding="utf-8"), last_screen(scored, tmp_path)
    ratio = figures(scored)["adapted_over_frozen"]
    assert "answered 2 fresh prompts" in page
    assert "chains of 2 drafts sampled at temperature 0.6" in page
    assert f"<b>{ratio.value:.3f}</b> times as many" in page
    assert f"the drafter at the start yields {figures(scored)['accept_length_frozen'].value:.2f}" in screen
    assert len(screen.splitlines()) == 4


def test_a_task_with_one_kind_of_problem_has_no_mix(run: Run, tmp_path: Path) -> None:
    plain = run.model_copy(update={"steps": tuple(step.model_copy(update={"mix": {}}) for step in run.steps)})
    page = write_report(plain, tmp_path).read_text(encoding="utf-8")
    assert page.count("<svg ") == 6
    assert "numbers per problem" not in page
    assert "<th scope=col>numbers</th>" not in page
    assert "Every step has new prompts of the same kind." in page


def test_the_page_says_which_policy_was_trained_on_what(run: Run, tmp_path: Path, page: str) -> None:
    assert (
        "a tiny reasoner of 3.3 million parameters, sampled at temperature 1; the task is the Countdown task." in page
    )
    subject = Subject(command="tlt demo-x", make="make x", bench="bench x", policy="a <b>", task="sums", reward="Some.")
    other = run.model_copy(update={"subject": subject, "settings": {"temperature": "0.6"}})
    told = write_report(other, tmp_path).read_text(encoding="utf-8")
    assert (
        "The policy is a &lt;b&gt;, sampled at temperature 0.6; the task is sums. GRPO trains all parameters." in told
    )
    for said in ("tlt demo-x", "<pre>make x</pre>", "<pre>bench x</pre>", "Some."):
        assert said in told


@pytest.mark.parametrize("layers", [SERVED_LAYERS, LAYERS])
def test_every_ratio_is_shown_beside_what_was_served(run: Run, tmp_path: Path, layers: int) -> None:
    told = subject_of(layers)
    served = run.model_copy(update={"subject": told})
    page, screen = write_report(served, tmp_path).read_text(encoding="utf-8"), last_screen(served, tmp_path)
    assert page.count(escape(told.served)) == 5, "head, picture of a step, times of steps, tails, all figures"
    assert escape(told.ratio) in page
    assert screen.splitlines()[1] == told.premises == f"{told.served} {told.ratio}"
    assert result(served).notes["served"] == told.premises
    assert "served" not in result(run).notes, "a run of before it was recorded"


def test_a_run_without_a_step_is_refused(tmp_path: Path, run: Run) -> None:
    with pytest.raises(ValueError, match="finished no step"):
        write_report(run.model_copy(update={"steps": ()}), tmp_path)


def test_what_is_said_of_training_and_of_what_came_of_it_fits_together(run: Run) -> None:
    given = Swap(version=1, at_unix_s=run.began_unix_s, held_out_top1=0.5, worker=GIVEN)
    assert "One new drafter was swapped in, after" in training(run.model_copy(update={"swaps": (given, run.swaps[0])}))
    assert f"{len(run.swaps)} new drafters were swapped in, the first after" in training(run)
    unpublished = training(run.model_copy(update={"swaps": (given,)}))
    assert re.fullmatch(
        r"\d+% of idle worker time trained the drafter; no new drafter was published in this run, so the one that the "
        r"run started with was used throughout\.",
        unpublished,
    )
    assert unpublished in last_screen(run.model_copy(update={"swaps": (given,)}), Path("report.html"))
    assert training(run.model_copy(update={"swaps": ()})).endswith("so none was in use.")
    assert training(run.model_copy(update={"steps": (), "swaps": ()})).startswith("No idle worker time trained")


def test_the_last_screen_has_four_lines(run: Run) -> None:
    gained, _, source, where = last_screen(run, Path("runs/1/report.html")).splitlines()
    assert f"{figures(run)['step_speedup'].value:.2f}x" in gained
    assert f"{figures(run)['accept_length_last'].value:.2f}" in source
    assert where == "Report: runs/1/report.html"


def test_different_rewards_are_noticed() -> None:
    run = Story(paired=False).run(11)
    assert compare_rewards(run).is_by_chance
    better = [
        step.model_copy(update={"rollouts": tuple(_shifted(rollout) for rollout in step.rollouts)})
        for step in run.steps
    ]
    assert not compare_rewards(run.model_copy(update={"steps": tuple(better)})).is_by_chance


def test_steps_are_cold_until_the_first_swap(run: Run) -> None:
    for fact in facts(run):
        assert fact.is_cold == (fact.step.side("on").began_unix_s < run.swaps[0].at_unix_s)


def runs(document: TimelineDocument, label: str) -> list[tuple[int, int]]:
    (row,) = (row for row in document.rows if row.label == label)
    assert isinstance(row, LaneRow)
    return row.runs


def test_lanes_say_how_long_each_state_lasted(run: Run) -> None:
    mine = [interval for interval in run.intervals if interval.worker == WORKERS[0]]
    span = (mine[0].began_unix_s, mine[-1].ended_unix_s)
    document = document_in(run, span)
    training = STATES.index(WorkerState.TRAINING)
    columns = sum(length for state, length in runs(document, WORKERS[0]) if state == training)
    trained_s = sum(interval.ended_unix_s - interval.began_unix_s for interval in mine if interval.state == "training")
    assert columns * document.column_s == pytest.approx(trained_s, rel=0.02)


def test_time_nobody_noted_is_not_known() -> None:
    noted = [
        Interval(worker="w", state="idle", began_unix_s=2.0, ended_unix_s=3.0),
        Interval(worker="w", state="rollout", began_unix_s=5.0, ended_unix_s=9.0),
    ]
    spans = list(track_of("w", noted).spans(Window(from_s=0.0, to_s=10.0, columns=10)))
    idle, rollout = STATES.index(WorkerState.IDLE), STATES.index(WorkerState.ROLLOUT)
    assert spans == [
        (UNKNOWN, 0.0, 2.0),
        (idle, 2.0, 3.0),
        (UNKNOWN, 3.0, 5.0),
        (rollout, 5.0, 9.0),
        (UNKNOWN, 9.0, 10.0),
    ]


def test_timelines_are_drawn_by_the_pages_renderer(page: str) -> None:
    renderer = (Path(__file__).parents[3] / "services/tlt_coordinator/http/page/raster.js").read_text()
    assert renderer.partition("export ")[0] in script()
    assert script() in page
    assert not re.search(r"^(import|export) ", script(), flags=re.MULTILINE)
    (inlined, *_) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
    document = TimelineDocument.model_validate(json.loads(inlined)["timeline"])
    assert (document.format, len(document.rows)) == ("tlt-timeline/1", len(WORKERS))


def test_a_workers_name_ends_no_script(run: Run, tmp_path: Path) -> None:
    renamed = [
        interval.model_copy(update={"worker": "</script><b>"} if interval.worker == WORKERS[0] else {})
        for interval in run.intervals
    ]
    text = write_report(run.model_copy(update={"intervals": tuple(renamed)}), tmp_path).read_text(encoding="utf-8")
    assert "</script><b>" not in text


def test_a_drawing_names_itself_for_readers_who_hear_it() -> None:
    svg = draw("empty", 'nothing "here"', 1.0, lambda figure: None)
    assert svg.startswith('<svg role="img" aria-label="nothing &quot;here&quot;" ')


def _shifted(rollout: Rollout) -> Rollout:
    if rollout.side == "off":
        return rollout
    moved = tuple(response.model_copy(update={"reward": response.reward + 0.2}) for response in rollout.responses)
    return rollout.model_copy(update={"responses": moved})

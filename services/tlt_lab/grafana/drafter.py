"""The drafter: what it learns from, how good it is, how old."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from tlt_lab.grafana.board import AnyPanel, Row, board
from tlt_lab.grafana.panels import BAD, FAIR, GOOD, Query, series, value
from tlt_lab.grafana.queries import events, mean, of, or_zero, rate, recent, total

HELD_OUT = "tlt_trainer_held_out_accept_length"
OWN, PUBLISHED = 'drafter="own"', 'drafter="published"'


def drafter() -> Dashboard:
    """Age, learning, publishing, data."""
    return board(
        "tlt-drafter",
        "TLT / Drafter",
        "The draft model that idle workers train.",
        (
            Row("Newest", _figures()),
            Row("Learning", _learning()),
            Row("Publishing", _publishing()),
            Row("Data", _data()),
        ),
    )


def _figures() -> Sequence[AnyPanel]:
    published = f"max({of('tlt_drafter_published_timestamp_seconds')} > 0)"
    return (
        value(
            "Version",
            "Newest drafter of the fleet; 0: none yet. Still 0 after some steps: see Learning and Data below.",
            "none",
            f"max({of('tlt_drafter_version')})",
            steps=((None, FAIR), (1, GOOD)),
        ),
        value(
            "Age in policy versions",
            "Weights updates since it was published. Above 8: see the runbook TltDrafterStale.",
            "none",
            f"max({of('tlt_drafter_age_versions')})",
            steps=((None, GOOD), (4, FAIR), (8, BAD)),
        ),
        value(
            "Age",
            "Time since it was published.",
            "s",
            f"time() - {published} or on() vector(0)",
        ),
        value(
            "Held-out accept length",
            "Tokens per round that the best trainer's drafter would get on prompts it never saw (greedy, chain of 3).",
            "none",
            f"max({of(HELD_OUT, OWN)})",
            steps=((None, BAD), (1.5, FAIR), (2, GOOD)),
        ),
        value(
            "Trained in this time range",
            "Tokens, all trainers. Zero: nobody is lent (TLT / Bubbles), or there are no frames (below).",
            "short",
            total("tlt_trainer_tokens_total"),
        ),
        value(
            "Published in this time range",
            "Drafters the coordinator accepted. None while training goes on: it gains less than publish.gain.",
            "none",
            events("tlt_trainer_drafters_published_total", 'outcome="accepted"'),
        ),
    )


def _learning() -> Sequence[AnyPanel]:
    return (
        series(
            "Loss",
            "Of the last step, by trainer. It jumps at weights updates and falls again. Not falling at all: the frames "
            "are of other weights; look at unusable frames below.",
            "none",
            Query(f"max by (pod) ({of('tlt_trainer_loss')})", "{{pod}}"),
            least=None,
            width=8,
        ),
        series(
            "Held-out accept length",
            "Mean over trainers: what each has now, and the published drafter, on the same prompts nobody trained on.",
            "none",
            Query(f"avg({of(HELD_OUT, OWN)})", "trainers' own"),
            Query(f"avg({of(HELD_OUT, PUBLISHED)})", "published"),
            least=1.0,
            width=8,
        ),
        series(
            "Gain that waits to be published",
            "Own minus published, by trainer. A trainer publishes above publish.gain; below zero it is about to follow "
            "the published one.",
            "none",
            Query(
                f"max by (pod) ({of(HELD_OUT, OWN)}) - max by (pod) ({of(HELD_OUT, PUBLISHED)})",
                "{{pod}}",
            ),
            least=None,
            width=8,
        ),
        series(
            "Training tokens per second",
            "By trainer, over all time. Low beside the speed to its right: it seldom holds a lease.",
            "none",
            Query(rate("tlt_trainer_tokens_total", by="pod"), "{{pod}}"),
            stacked=True,
        ),
        series(
            "Speed while training",
            "Tokens per second of training. A fall on one worker: its device is shared with something else.",
            "none",
            Query(
                f"{rate('tlt_trainer_tokens_total', by='pod')} / {rate('tlt_trainer_step_seconds_total', by='pod')}",
                "{{pod}}",
            ),
        ),
    )


def _publishing() -> Sequence[AnyPanel]:
    return (
        series(
            "Versions",
            "Published, and what workers and trainers have. A worker that stays behind refused one: see loads beside.",
            "none",
            Query(f"max({of('tlt_drafter_version')})", "published"),
            Query(f"min({of('tlt_worker_drafter_version')})", "oldest at a worker"),
            Query(f"min({of('tlt_trainer_base_version')})", "oldest at a trainer"),
            width=8,
        ),
        series(
            "Offers, last 10 minutes",
            "Drafters offered to the coordinator. overtaken: another trainer was faster; its work is merged, not lost.",
            "none",
            Query(recent("tlt_trainer_drafters_published_total", by="outcome"), "{{outcome}}"),
            width=8,
        ),
        series(
            "Loads by workers, last 10 minutes",
            "Drafters that engines swapped in. refused: the file is unreadable or of another shape; do all pods share "
            "drafter_dir?",
            "none",
            Query(recent("tlt_worker_drafter_loads_total", by="outcome"), "{{outcome}}"),
            width=8,
        ),
    )


def _data() -> Sequence[AnyPanel]:
    return (
        series(
            "Frames of hidden states per second",
            "From engines into the cache. No frames: capture is off (cache away, sample_ratio 0).",
            "none",
            Query(rate("tlt_worker_frames_sent_total"), "sent"),
            Query(rate("tlt_cache_frames_total", 'outcome="kept"'), "kept"),
            Query(or_zero(rate("tlt_worker_frames_dropped_total")), "lost on the way"),
            width=8,
        ),
        series(
            "Tokens handed to trainers per second",
            "Only while a worker is lent.",
            "none",
            Query(rate("tlt_cache_taken_tokens_total"), "taken"),
            width=8,
        ),
        series(
            "Unusable frames and checkpoints",
            "Frames of another shape or too short, per second: some are normal. Checkpoints: mean time to write one; "
            "slow "
            "ones delay nothing but the next lease.",
            "none",
            Query(or_zero(rate("tlt_trainer_unusable_frames_total")), "unusable frames per second"),
            Query(f"{mean('tlt_trainer_checkpoint_seconds')}", "seconds per checkpoint"),
            width=8,
        ),
    )

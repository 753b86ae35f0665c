"""Dashboard of the drafter: training data, quality and age."""

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import AnyPanel, Row, board
from grafana.panels import BAD, FAIR, GOOD, Query, series, value
from grafana.queries import events, mean, of, or_zero, rate, recent, total

HELD_OUT = "tlt_trainer_held_out_accept_length"
OWN, PUBLISHED = 'drafter="own"', 'drafter="published"'


def drafter() -> Dashboard:
    """Build the dashboard: age, training, publishing, data."""
    return board(
        "tlt-drafter",
        "TLT / Drafter",
        "The draft model that idle workers train.",
        (
            Row("Newest drafter", _figures()),
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
            "Newest drafter of the fleet; 0 means none yet. If it is still 0 after several steps, check the rows "
            "Learning and Data.",
            "none",
            f"max({of('tlt_drafter_version')})",
            steps=((None, FAIR), (1, GOOD)),
        ),
        value(
            "Age in policy versions",
            "Weight updates since the drafter was published. Above 8: see the runbook TltDrafterStale.",
            "none",
            f"max({of('tlt_drafter_age_versions')})",
            steps=((None, GOOD), (4, FAIR), (8, BAD)),
        ),
        value(
            "Age",
            "Time since the drafter was published.",
            "s",
            f"time() - {published} or on() vector(0)",
        ),
        value(
            "Held-out accept length",
            "Tokens per round that the best trainer's drafter would achieve on prompts it has never seen: drafts "
            "sampled at temperature 1, one for each pass of training (3 unless passes is set).",
            "none",
            f"max({of(HELD_OUT, OWN)})",
            steps=((None, BAD), (1.5, FAIR), (2, GOOD)),
        ),
        value(
            "Tokens trained in this time range",
            "Tokens, over all trainers. Zero: no worker is lent (TLT / Bubbles), or no frames arrive (row Data).",
            "short",
            total("tlt_trainer_tokens_total"),
        ),
        value(
            "Drafters published in this time range",
            "Drafters the coordinator accepted. None while training continues: the gain is below publish.gain.",
            "none",
            events("tlt_trainer_drafters_published_total", 'outcome="accepted"'),
        ),
    )


def _learning() -> Sequence[AnyPanel]:
    return (
        series(
            "Loss",
            "Loss of the last step, by trainer. It rises after a weight update and falls again. If it does not fall, "
            "the frames come from other weights; check unusable frames in the row Data.",
            "none",
            Query(f"max by (pod) ({of('tlt_trainer_loss')})", "{{pod}}"),
            y_min=None,
            width=8,
        ),
        series(
            "Held-out accept length",
            "Mean over trainers: their current drafters and the published one, on the same held-out prompts.",
            "none",
            Query(f"avg({of(HELD_OUT, OWN)})", "trainers"),
            Query(f"avg({of(HELD_OUT, PUBLISHED)})", "published"),
            y_min=1.0,
            width=8,
        ),
        series(
            "Unpublished gain",
            "Own drafter minus published drafter, by trainer. A trainer publishes above publish.gain; below zero it "
            "is about to adopt the published one.",
            "none",
            Query(
                f"max by (pod) ({of(HELD_OUT, OWN)}) - max by (pod) ({of(HELD_OUT, PUBLISHED)})",
                "{{pod}}",
            ),
            y_min=None,
            width=8,
        ),
        series(
            "Training tokens per second",
            "Averaged over all time, by trainer. Much lower than the speed on the right: the trainer rarely holds a "
            "lease.",
            "none",
            Query(rate("tlt_trainer_tokens_total", by="pod"), "{{pod}}"),
            stacked=True,
        ),
        series(
            "Training speed under a lease",
            "Tokens per second while training. A drop on one worker: other work shares its device.",
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
            "Published version, and the versions that workers and trainers hold. A worker that stays behind refused "
            "a drafter; see loads on the right.",
            "none",
            Query(f"max({of('tlt_drafter_version')})", "published"),
            Query(f"min({of('tlt_worker_drafter_version')})", "oldest at a worker"),
            Query(f"min({of('tlt_trainer_base_version')})", "oldest at a trainer"),
            width=8,
        ),
        series(
            "Offers, last 10 minutes",
            "Drafters offered to the coordinator. overtaken: another trainer was faster; the work is merged, not lost.",
            "none",
            Query(recent("tlt_trainer_drafters_published_total", by="outcome"), "{{outcome}}"),
            width=8,
        ),
        series(
            "Loads by workers, last 10 minutes",
            "Drafters that engines loaded. refused: the file is unreadable or has another shape; check that all pods "
            "share drafter_dir.",
            "none",
            Query(recent("tlt_worker_drafter_loads_total", by="outcome"), "{{outcome}}"),
            width=8,
        ),
    )


def _data() -> Sequence[AnyPanel]:
    return (
        series(
            "Hidden-state frames per second",
            "From engines to the cache. None: capture is off (cache unreachable, or sample_ratio 0).",
            "none",
            Query(rate("tlt_worker_frames_sent_total"), "stored, by workers' count"),
            Query(rate("tlt_cache_frames_total"), "stored, by the cache's count"),
            Query(or_zero(rate("tlt_worker_frames_dropped_total")), "dropped"),
            width=8,
        ),
        series(
            "Tokens delivered to trainers per second",
            "Nonzero only while a worker is lent.",
            "none",
            Query(rate("tlt_cache_taken_tokens_total"), "taken"),
            width=8,
        ),
        series(
            "Unusable frames and checkpoints",
            "Frames per second that do not fit or are too short; a few are normal. Checkpoints: mean time to write "
            "one; a slow one delays only the next lease.",
            "none",
            Query(or_zero(rate("tlt_trainer_unusable_frames_total")), "unusable frames per second"),
            Query(f"{mean('tlt_trainer_checkpoint_seconds')}", "seconds per checkpoint"),
            width=8,
        ),
    )

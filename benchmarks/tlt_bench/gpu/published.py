"""
Figures of the TLT paper (arXiv 2511.16665) to which parts of `tlt bench gpu` are compared.

The paper measures Qwen2.5-7B and 32B on H100 with its authors' fork of SGLang. Ours are ratios within one run on the
available GPU, with random weights of public shapes, or with the demo's small policy where acceptance matters.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """The paper's value of a figure that we measure."""

    value: str
    meaning: str
    is_ours: bool = False
    """Whether it is a target of this project rather than the paper's value."""


PUBLISHED: Final = {
    "graphs_naive_over_planned": PublishedFigure(
        value="2.84", meaning="30.39 ÷ 10.69 GB: CUDA graphs of all strategies, captured naively ÷ bucketed (Table 5)"
    ),
    "graphs_single_over_planned": PublishedFigure(
        value="0.73", meaning="7.81 ÷ 10.69 GB: one static strategy ÷ all, bucketed (Table 5)"
    ),
    "rollout_step_speedup": PublishedFigure(value="1.7 to 2.1", meaning="training step end to end, against VeRL"),
    "rollout_accept_length_first": PublishedFigure(value="4.59", meaning="accept length before adaptation"),
    "rollout_accept_length_last": PublishedFigure(value="6.53", meaning="accept length after adaptation"),
    "training_snapshot_ms": PublishedFigure(
        value="97", meaning="ms that a selective asynchronous checkpoint stalls training; 893 without"
    ),
    "off_off_vs_plain_bs1": PublishedFigure(
        value="1", meaning="off is as fast as SGLang without the suite", is_ours=True
    ),
    "truth_wrong_rows": PublishedFigure(value="0", meaning="captured states that are not the target's", is_ours=True),
    "capture_capture_on_vs_off_bs1": PublishedFigure(
        value="0.98", meaning="decoding with capture ÷ without, at least", is_ours=True
    ),
    "rounds_launches_off_over_stock": PublishedFigure(
        value="10", meaning="launches per round of off beyond SGLang's, at most", is_ours=True
    ),
    "rounds_syncs_off": PublishedFigure(value="0", meaning="waits of the host per round of off", is_ours=True),
    "rounds_syncs_chain": PublishedFigure(value="0", meaning="waits of the host per round of a chain", is_ours=True),
}
"""By name of our figure, part included."""

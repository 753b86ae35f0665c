"""What a run is about, as its report and its terminal output say it."""

from tlt_common.config.base import Frozen


class Subject(Frozen):
    """The policy that a run trains, its task, and the commands that repeat the run."""

    command: str = "tlt demo"
    make: str = "make demo"
    bench: str = "tlt bench rollout --json -"
    """Prints the figures only."""
    policy: str = "a tiny reasoner of 3.3 million parameters"
    task: str = "the Countdown task"
    trained: str = "all parameters"
    """What of the policy is trained."""
    reward: str = "The reward of a correct answer is 1 minus a small penalty for its length."
    served: str = ""
    """What engines serve, in a sentence that is shown beside each ratio. Empty: a run of before this was recorded."""
    ratio: str = ""
    """What the served depth does to the ratios, in a sentence."""

    @property
    def premises(self) -> str:
        """What the ratios of the run stand on; empty if `served` is."""
        return f"{self.served} {self.ratio}".strip()

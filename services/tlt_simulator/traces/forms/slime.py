"""
slime's debug rollout dumps: `--save-debug-rollout-data PATH/{rollout_id}.pt`, a file per rollout.

Written by `save_debug_rollout_data` (slime/observability/rollout_data_utils.py, 624b824a): `torch.save` of
`{"rollout_id": …, "samples": [Sample.to_dict(), …]}` (slime/utils/types.py). Read here: `group_index`, `prompt`
(hashed), `tokens` (of prompt and response), `response_length`, `loss_mask` (1 for tokens that were sampled, 0 for
what a tool returned), `status`. No times. Files eval_N.pt are evaluations.
"""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.forms.inert import saved
from tlt_simulator.traces.logfile import LogNames, suffix
from tlt_simulator.traces.values import LineValues, refused, shown

NAMES = LogNames(
    suffixes=(".pt",), pattern=r"(.*\D)?\d+", called="{rollout_id}.pt, a file per rollout", others=r"(.*\D)?eval_\d+"
)
ENDS = {"completed": True, "truncated": False, "failed": True}
"""By `Sample.Status`: of what failed afterwards, as in a tool call, the tokens were generated."""
LEFT_OUT = ("aborted", "pending")


class SlimeForm:
    """Reads slime's rollout dumps."""

    name = "slime"
    about = "slime's debug rollout dumps (--save-debug-rollout-data): {rollout_id}.pt, read without torch"
    tokens_field = "response_length"
    group_field = "group_index"

    def fits(self, look: FirstLook) -> bool:
        return suffix(look.path) == ".pt"

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        before = -1
        for file in NAMES.chosen(path, options.note):
            values = saved(file)
            if not isinstance(values, dict):
                raise refused(str(file), "it", shown(values), "an object with rollout_id and samples")
            whole = LineValues(str(file), values)
            step, left_out = whole.whole("rollout_id"), 0
            if step <= before:
                raise whole.error("rollout_id", f"more than {before}, that of the file before it")
            before = step
            for place, sample in enumerate(whole.objects("samples")):
                line = LineValues(f"{file}: samples[{place}]", sample.values)
                if line.text("status") in LEFT_OUT:
                    left_out += 1
                    continue
                yield _response(line, step)
            if left_out:
                options.note(f"{file.name}: left out {left_out} responses that were aborted")


def _response(line: LineValues, step: int) -> FoundResponse:
    status, tokens, ids = line.text("status"), line.tokens("response_length"), line.values.get("tokens")
    if status not in ENDS:
        raise line.error("status", ", ".join((*ENDS, *LEFT_OUT)))
    if not isinstance(ids, list) or len(ids) < tokens:
        found = f"has {len(ids)}" if isinstance(ids, list) else shown(ids)
        raise refused(line.place, "tokens", found, f"the token ids of prompt and response, at least {tokens}")
    sampled = line.sampled("loss_mask", of=tokens)
    group = line.whole("group_index") if line.has("group_index") else None
    return FoundResponse(
        place=line.place,
        step=step,
        prompt=line.canonical("prompt") if line.values.get("prompt") else group,
        group=group,
        prompt_tokens=len(ids) - tokens,
        tokens=sampled or tokens,
        ends=ENDS[status],
    )

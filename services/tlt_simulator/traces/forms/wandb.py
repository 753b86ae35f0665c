"""
Tables stored by Weights & Biases: NAME.table.json with `columns` and `data`, as `wandb.Table` and TRL's
`log_completions` write them (media/table of a run, or exported).

A column of lengths is read if there is one, otherwise texts are counted with a tokenizer.
"""

from collections.abc import Iterator
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.forms.texts import counted
from tlt_simulator.traces.logfile import LogNames, objects
from tlt_simulator.traces.values import LineValues, name_of, refused

NAMES = LogNames(
    suffixes=(".json",), pattern=r".*\.table", called="*.table.json, a file per table", others=r"(?!.*\.table$).*"
)
LENGTHS = (
    "completion_tokens", "completion_length", "response_length", "response_tokens", "output_tokens", "output_length",
    "num_tokens", "tokens",
)  # fmt: skip
PROMPT_LENGTHS = ("prompt_tokens", "prompt_length", "input_tokens", "input_length")
TEXTS = ("completion", "response", "output")
PROMPTS = ("prompt", "prompt_id", "input", "question")
STEPS = ("step", "global_step")
REASONS = ("finish_reason", "stop_reason")


class WandbForm:
    """Reads Weights & Biases tables."""

    name = "wandb"
    about = "tables of Weights & Biases (*.table.json): a column of lengths, or texts counted with your tokenizer"
    tokens_field = "completion_tokens"
    group_field = "prompt"

    def fits(self, look: FirstLook) -> bool:
        return isinstance(look.first.get("columns"), list) and isinstance(look.first.get("data"), list)

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        for number, file in enumerate(NAMES.chosen(path, options.note), start=1):
            for table in objects(file):
                rows = _rows(table)
                lengths = _column(rows, LENGTHS) if rows else ""
                if lengths:
                    found = (
                        (row, _said(row, PROMPTS), _length(row, PROMPT_LENGTHS), row.tokens(lengths)) for row in rows
                    )
                    yield from (_response(*one, number, is_counted=False) for one in found)
                elif text := _column(rows, TEXTS):
                    texts = ((row, _said(row, PROMPTS) or "", _text(row, text)) for row in rows)
                    for row, prompt, prompt_tokens, tokens in counted(texts, options, text):
                        yield _response(row, prompt or None, prompt_tokens, tokens, number, is_counted=True)
                elif rows:
                    known = ", ".join(map(name_of, list(rows[0].values)[:10]))
                    accepted = f"one of {', '.join((*LENGTHS, *TEXTS))}"
                    raise refused(table.place, "columns", f"are {known}", accepted)


def _rows(table: LineValues) -> list[LineValues]:
    columns, data = table.values.get("columns"), table.values.get("data")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise table.error("columns", "a list of names")
    if not isinstance(data, list) or not all(isinstance(row, list) and len(row) == len(columns) for row in data):
        raise table.error("data", f"a list of rows of {len(columns)} values, one for each column")
    return [
        LineValues(f"{table.place}: row {n}", dict(zip(columns, row, strict=True))) for n, row in enumerate(data, 1)
    ]


def _column(rows: list[LineValues], names: tuple[str, ...]) -> str:
    return next((name for name in names if rows and name in rows[0].values), "")


def _said(row: LineValues, names: tuple[str, ...]) -> str | None:
    """Return the identity of a prompt. The caller hashes texts."""
    name = next((name for name in names if row.has(name)), None)
    return None if name is None else row.canonical(name)


def _text(row: LineValues, name: str) -> str:
    value = row.values.get(name)
    return value if isinstance(value, str) else row.canonical(name)


def _length(row: LineValues, names: tuple[str, ...]) -> int:
    name = next((name for name in names if row.has(name)), None)
    return 0 if name is None else row.tokens(name, least=0)


def _response(
    row: LineValues, prompt: str | None, prompt_tokens: int, tokens: int, number: int, *, is_counted: bool
) -> FoundResponse:
    step = next((row.values[name] for name in STEPS if row.has(name)), number)
    if isinstance(step, str) and step.isdecimal() and len(step) < 10:
        step = int(step)  # as TRL writes it
    reason = next((row.values[name] for name in REASONS if row.has(name)), None)
    return FoundResponse(
        place=row.place,
        step=LineValues(row.place, {"step": step}).whole("step"),
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        ends=None if not isinstance(reason, str) else reason != "length",
        is_counted=is_counted,
    )

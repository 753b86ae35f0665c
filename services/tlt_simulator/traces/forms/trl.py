"""
TRL's completions tables: OUTPUT_DIR/completions/completions_STEP.parquet, which `log_completions=True` writes.

Written by `GRPOTrainer.log` (trl/trainer/grpo_trainer.py, 1.16) and by the distillation trainer: `step`, `prompt`,
`completion`, a column for each reward, `advantage`. TRL logs no lengths: prompts and completions are texts, or lists of
messages, whose tokens are counted with a tokenizer that the user names. A table has what was generated last: with
`logging_steps` above 1, steps are missing, and with several optimizer steps per generation, tables repeat each other.
"""

import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.forms.texts import counted
from tlt_simulator.traces.logfile import LogNames, opened, stem, suffix
from tlt_simulator.traces.values import MISSING, LineValues, name_of, refused, shown

NAMES = LogNames(
    suffixes=(".parquet",),
    pattern=r"completions_\d+",
    called="completions_STEP.parquet, a file per step that was logged",
)
COLUMNS = ("step", "prompt", "completion")
ROWS = 256
"""Read at a time."""


class TrlForm:
    """Reads TRL's completions tables."""

    name = "trl"
    about = "TRL's completions tables (log_completions=True): completions_STEP.parquet, counted with your tokenizer"
    tokens_field = "completion"
    group_field = "prompt"

    def fits(self, look: FirstLook) -> bool:
        return suffix(look.path) == ".parquet"

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        before = b""
        for file in NAMES.chosen(path, options.note):
            digest = blake2b(digest_size=16)
            for row in _rows(file):
                digest.update(
                    f"{row.values.get('prompt')!r}\0{row.values.get('completion')!r}\0".encode(errors="replace")
                )
            if digest.digest() == before:
                options.note(f"{file.name} repeats the table before it, which TRL writes between generations: left out")
                continue
            before = digest.digest()
            for row, prompt, prompt_tokens, tokens in counted(_texts(file), options, "completion"):
                yield FoundResponse(
                    place=row.place,
                    step=row.whole("step"),
                    prompt=prompt,
                    prompt_tokens=prompt_tokens,
                    tokens=tokens,
                    ends=None,
                    is_counted=True,
                )


def _texts(file: Path) -> Iterator[tuple[LineValues, str, str]]:
    number = stem(file).rpartition("_")[2]
    for row in _rows(file):
        step = row.whole("step")
        if number.isdecimal() and step != int(number):
            raise row.error("step", f"{int(number)}, as in the name of the file")
        yield row, _text(row, "prompt", ""), _text(row, "completion", "assistant")


def _rows(path: Path) -> Iterator[LineValues]:
    """
    Yield the rows of a table.

    Raises:
        ConfigError: The file is not a table, or a column is missing.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ConfigError(
            "TRL's tables need the package pyarrow; accepted: pip install pyarrow", field="form"
        ) from error
    with opened(path) as stream:
        try:
            table = ParquetFile(stream)
            missing = [name for name in COLUMNS if name not in table.schema_arrow.names]
            if missing:
                known = ", ".join(map(name_of, table.schema_arrow.names[:10]))
                raise refused(str(path), f"the column {missing[0]}", f"is missing among {known}", ", ".join(COLUMNS))
            number = 0
            for batch in table.iter_batches(batch_size=ROWS, columns=list(COLUMNS)):
                for values in batch.to_pylist():
                    number += 1
                    yield LineValues(f"{path}: row {number}", values)
        except (ArrowException, OSError, EOFError, zlib.error) as error:
            raise refused(str(path), "the file", "is not a complete table", "a Parquet file") from error


def _text(row: LineValues, column: str, role: str) -> str:
    """
    Return the text of a cell: a string, or the contents of messages, of one role only unless it is empty.

    Raises:
        ConfigError: The cell has another type.
    """
    value = row.values.get(column, MISSING)
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise refused(row.place, column, shown(value), "a string or a list of messages")
    return "\n".join(_content(message) for message in value if role in {"", message.get("role")})


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""

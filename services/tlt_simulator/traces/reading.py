"""Reads the log of an RL run, in a given or detected form."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.counting import TextCounter
from tlt_simulator.traces.form import FirstLook, ReadOptions, TraceForm
from tlt_simulator.traces.forms.areal import ArealForm
from tlt_simulator.traces.forms.evaluations import SkyRlForm, VerifiersForm
from tlt_simulator.traces.forms.journal import JournalForm
from tlt_simulator.traces.forms.mooncake import MooncakeForm
from tlt_simulator.traces.forms.nemo_rl import NemoRlForm
from tlt_simulator.traces.forms.plain import PlainForm
from tlt_simulator.traces.forms.prime_rl import PrimeRlForm
from tlt_simulator.traces.forms.servegen import ServeGenForm
from tlt_simulator.traces.forms.serving import AZURE, BURSTGPT
from tlt_simulator.traces.forms.slime import SlimeForm
from tlt_simulator.traces.forms.trl import TrlForm
from tlt_simulator.traces.forms.verl import VerlForm
from tlt_simulator.traces.forms.wandb import WandbForm
from tlt_simulator.traces.logfile import lines, suffix
from tlt_simulator.traces.steps import StepCollector
from tlt_simulator.traces.table import columns
from tlt_simulator.traces.values import MAX_TOKENS, LineValues, refused

FORMS: tuple[TraceForm, ...] = (
    VerlForm(),
    SlimeForm(),
    PrimeRlForm(),
    TrlForm(),
    NemoRlForm(),
    ArealForm(),
    SkyRlForm(),
    VerifiersForm(),
    WandbForm(),
    JournalForm(),
    MooncakeForm(),
    ServeGenForm(),
    BURSTGPT,
    AZURE,
    PlainForm(),
)
NO_LINES = (".pt", ".parquet")
"""Suffixes of files that have no JSON lines."""


def forms() -> Mapping[str, str]:
    """Return the names of all forms with a one-line description."""
    return {form.name: form.about for form in FORMS}


def read_trace(
    path: Path,
    *,
    form: str | None = None,
    group: int | None = None,
    cap: int | None = None,
    tokenizer: str | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> RunTrace:
    """
    Read the lengths, groups and times of a log.

    Args:
        path: A file or a directory.
        form: One of `forms()`; None detects it from the files.
        group: Responses per prompt; None takes it from the log. A log that differs is refused.
        cap: Maximum tokens of a response; None takes it from the log, otherwise from its longest response.
        tokenizer: tokenizer.json or its directory, to count tokens in logs with texts only.
        tell: Called after each response with the number found.

    Raises:
        ConfigError: The log is not accepted; the message names file, line and field, and what is accepted, but never
            shows a text.
    """
    for name, value, most in (("group", group, MAX_TOKENS), ("cap", cap, MAX_TOKENS)):
        if value is not None and not (type(value) is int and 1 <= value <= most):
            raise ConfigError(f"{name} is {value!r}; accepted: a whole number from 1 to {most}", field=name)
    _require_there(path)
    chosen = _named(form) if form is not None else _found(path)
    collector = StepCollector(chosen, group=group, cap=cap, tell=tell)
    counter = TextCounter(tokenizer) if tokenizer is not None else None
    options = ReadOptions(group=group, cap=cap, count=counter.count if counter else None, note=collector.note)
    return collector.collect(chosen.read(path, options), str(path))


def _require_there(path: Path) -> None:
    try:
        is_there = path.exists()
    except OSError as error:
        raise refused(str(path), "it", f"cannot be read: {error.strerror}", "a file or a directory") from error
    if not is_there:
        raise refused(str(path), "it", "is missing", "a file or a directory")


def _named(name: str) -> TraceForm:
    for form in FORMS:
        if form.name == name:
            return form
    raise ConfigError(f"{name!r} is not a form of log; accepted: {', '.join(forms())}", field="form")


def _found(path: Path) -> TraceForm:
    """Return the one form that fits."""
    fitting, unread, looks = list[TraceForm](), list[str](), dict[Path, FirstLook | str]()
    for form in FORMS:
        try:
            file = form.first_of(path) if path.is_dir() else path
        except ConfigError as error:
            unread.append(error.message)
            continue
        if file is None:
            continue
        if file not in looks:
            looks[file] = _look(file)
        if isinstance(look := looks[file], str):
            unread.append(look)  # the first line cannot be read: that is the answer if nothing else fits
        elif form.fits(look):
            fitting.append(form)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(form.name for form in fitting)
        raise ConfigError(f"{path} could be of several forms; accepted: one of them as the form: {names}", field="form")
    if unread:
        raise ConfigError(unread[0], field="trace")
    known = "; ".join(f"{name}: {about}" for name, about in forms().items())
    raise ConfigError(f"{path} is of no known form; accepted: {known}", field="form")


def _look(file: Path) -> FirstLook | str:
    """Return the properties by which forms are recognized, or why the log cannot be read."""
    try:
        return FirstLook(file, _first(file))
    except ConfigError as error:
        return error.message


def _first(path: Path) -> Mapping[str, Any]:
    """Return the first object of a file; for CSV its columns; empty if there are no lines."""
    if suffix(path) in NO_LINES:
        return {}
    if suffix(path) == ".csv":
        return dict.fromkeys(columns(path))
    for line in lines(path):
        return LineValues.of(line.place, line.text, is_cut=line.is_cut).values
    raise refused(str(path), "it", "is empty", "a file with at least one response")

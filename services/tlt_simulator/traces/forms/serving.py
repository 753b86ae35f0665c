"""
Public serving traces as CSV: BurstGPT's and Azure's. Requests arrive one by one; a file is one step.

BurstGPT (HPMLL/BurstGPT, data/): Timestamp (seconds), Session ID and Elapsed time in later ones, Model, Request tokens,
Response tokens, Total tokens, Log Type. Azure (Azure/AzurePublicDataset, AzureLLMInferenceTrace_*.csv): TIMESTAMP,
ContextTokens, GeneratedTokens. Requests without a response failed, and are left out.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from tlt_simulator.traces.form import FirstLook, Found, FoundResponse, ReadOptions
from tlt_simulator.traces.logfile import LogNames
from tlt_simulator.traces.table import number_of, rows, seconds_of
from tlt_simulator.traces.values import MAX_TOKENS, LineValues

NAMES = LogNames(suffixes=(".csv",), called="*.csv, a file per step")
_FRACTION = re.compile(r"(\.\d{6})\d+")
"""Of a second: Azure writes seven digits, datetime reads six."""


class ServingForm:
    """Reads one kind of serving trace."""

    group_field = "the line"

    def __init__(self, name: str, about: str, *, at: str, prompt: str, response: str) -> None:
        self.name, self.about, self.tokens_field = name, about, response
        self._at, self._prompt = at, prompt

    def fits(self, look: FirstLook) -> bool:
        return {self._at, self._prompt, self.tokens_field} <= look.first.keys()

    def first_of(self, directory: Path) -> Path | None:
        return NAMES.first_of(directory)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        options.note("every request counts as a separate prompt")
        for step, file in enumerate(NAMES.chosen(path, options.note), start=1):
            began_s, left_out = None, 0
            for number, line in enumerate(rows(file, (self._at, self._prompt, self.tokens_field))):
                if (tokens := number_of(line, self.tokens_field, most=MAX_TOKENS)) == 0:
                    left_out += 1
                    continue
                now_s = self._seconds(line)
                began_s = now_s if began_s is None else began_s
                if now_s < began_s:
                    raise line.error(self._at, "times in ascending order")
                yield FoundResponse(
                    place=line.place,
                    step=step,
                    prompt=(step, number),
                    prompt_tokens=number_of(line, self._prompt, most=MAX_TOKENS),
                    tokens=tokens,
                    ends=None,
                    after_s=round(now_s - began_s, 6),
                )
            if left_out:
                options.note(f"{file.name}: left out {left_out} requests without a response")

    def _seconds(self, line: LineValues) -> float:
        text = line.text(self._at)
        try:
            return datetime.fromisoformat(_FRACTION.sub(r"\1", text)).timestamp() if "-" in text else seconds_of(text)
        except ValueError:
            raise line.error(self._at, "seconds, or a time such as 2023-11-16 18:17:03.97") from None


BURSTGPT = ServingForm(
    "burstgpt",
    "BurstGPT's traces: CSV with Timestamp, Request tokens, Response tokens",
    at="Timestamp",
    prompt="Request tokens",
    response="Response tokens",
)
AZURE = ServingForm(
    "azure",
    "Azure's traces of LLM inference: CSV with TIMESTAMP, ContextTokens, GeneratedTokens",
    at="TIMESTAMP",
    prompt="ContextTokens",
    response="GeneratedTokens",
)

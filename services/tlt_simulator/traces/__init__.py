"""
Reads response lengths from logs of trainers and journals, and draws lengths from distributions. Texts never leave a
reader.

Others use `read_apart`, `read_trace`, `forms`, `LengthSpec`, `parsed_lengths`, `drawn_trace`, `drawn_steps` and
`Drawn`.
"""

from tlt_simulator.traces.apart import read_apart
from tlt_simulator.traces.drawn import Drawn, drawn_steps, drawn_trace
from tlt_simulator.traces.lengths import LengthSpec, parsed_lengths
from tlt_simulator.traces.reading import forms, read_trace

__all__ = ["Drawn", "LengthSpec", "drawn_steps", "drawn_trace", "forms", "parsed_lengths", "read_apart", "read_trace"]

"""
Timelines of workers, down-sampled for display: the format `tlt-timeline/1`. Pure: no clock, no I/O.

Others use `WorkerTrack`, `Window`, `TimelineDocument`, `TimelineMark`, `lanes`, `bands` and `document_of`.
"""

from tlt_common.timeline.document import (
    MAX_COLUMNS,
    MAX_LANES,
    STATES,
    BandRow,
    LaneRow,
    TimelineDocument,
    TimelineMark,
    document_of,
    head_of,
)
from tlt_common.timeline.rows import bands, lanes
from tlt_common.timeline.track import UNKNOWN, Window, WorkerTrack

__all__ = [
    "MAX_COLUMNS",
    "MAX_LANES",
    "STATES",
    "UNKNOWN",
    "BandRow",
    "LaneRow",
    "TimelineDocument",
    "TimelineMark",
    "Window",
    "WorkerTrack",
    "bands",
    "document_of",
    "head_of",
    "lanes",
]

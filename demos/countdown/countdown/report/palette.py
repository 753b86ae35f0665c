"""
Colors by meaning, for a light and a dark page.

Charts are drawn in the light colors; `chart` then replaces them with `var(--name)`, so that charts follow the page's
color scheme. This requires all light colors to be distinct.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Shade:
    """The light and dark colors of one meaning, as lowercase #rrggbb."""

    light: str
    dark: str


INK: Final = "#1b1f27"
SOFT: Final = "#667085"
LINE: Final = "#e3e6ec"
SURFACE: Final = "#fefefe"
ON: Final = "#c2510c"
OFF: Final = "#8d95a5"
LEARN: Final = "#e6d3b1"

STATES: Final = {
    "rollout": "#3f7ad6",
    "training": "#1f9d6b",
    "switching": "#dba816",
    "updating": "#8a5cd1",
    "idle": "#d9dde5",
    "starting": "#c3c4a8",
    "resting": "#b3bdcf",
    "trainer": "#c4578f",
    "down": "#b3261e",
}
"""By value of `WorkerState`."""

MIX: Final = ("#bcd4f5", "#6f9fe0", "#1f4f96")
"""From few to many numbers per problem."""

SHADES: Final = {
    "ink": Shade(INK, "#e7eaf0"),
    "soft": Shade(SOFT, "#98a1b2"),
    "line": Shade(LINE, "#2b313c"),
    "surface": Shade(SURFACE, "#14171d"),
    "on": Shade(ON, "#ff9a5c"),
    "off": Shade(OFF, "#7d8696"),
    "learn": Shade(LEARN, "#6e6048"),
    "rollout": Shade(STATES["rollout"], "#6ba1f5"),
    "training": Shade(STATES["training"], "#3cc48c"),
    "switching": Shade(STATES["switching"], "#eac14d"),
    "updating": Shade(STATES["updating"], "#b08cf0"),
    "idle": Shade(STATES["idle"], "#363d49"),
    "starting": Shade(STATES["starting"], "#5a5b3c"),
    "resting": Shade(STATES["resting"], "#4d586b"),
    "trainer": Shade(STATES["trainer"], "#e78abb"),
    "down": Shade(STATES["down"], "#f2716a"),
    "mix-0": Shade(MIX[0], "#26436d"),
    "mix-1": Shade(MIX[1], "#3f74bd"),
    "mix-2": Shade(MIX[2], "#8cbcff"),
}
"""By name of the CSS variable."""


def css() -> str:
    """Return the CSS variables for both color schemes."""
    light = "".join(f"--{name}:{shade.light};" for name, shade in SHADES.items())
    dark = "".join(f"--{name}:{shade.dark};" for name, shade in SHADES.items())
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"

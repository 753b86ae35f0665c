"""
Kinds of arms that find their drafts: one module each, which registers a `DraftSource`.

All modules of this package are imported here, so that a new kind needs no other change in the scheduler.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

"""
Kinds of arms: each module defines an `ArmKind` and registers it.

All modules of this package are imported here, so a new kind requires no other change in `tlt_common`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

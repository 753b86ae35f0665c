"""
Reads files written by `torch.save`, without torch and without running any code in the file.

A pickle is a program that may call any function by name. Here every name resolves to `OpaqueObject`, which does
nothing, so that only plain values remain: numbers, strings, lists, dictionaries. Tensors become opaque.
"""

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any, Self

from tlt_simulator.traces.logfile import opened
from tlt_simulator.traces.values import refused

PICKLE = "data.pkl"
MAX_BYTES = 16 * 2**30
"""Of the pickle of one step: two hundred million tokens, with their ids and probabilities."""


class OpaqueObject:
    """Stand-in for unknown objects: accepts any arguments and state, and discards them."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore all arguments."""

    def __call__(self, *_: Any, **__: Any) -> "OpaqueObject":
        return self

    def __setstate__(self, _: Any) -> None:
        """Ignore the state."""

    def __setitem__(self, _: Any, __: Any) -> None:
        """Ignore an item."""

    def append(self, _: Any) -> None:
        """Ignore an item."""

    def extend(self, _: Any) -> None:
        """Ignore items."""

    def add(self, _: Any) -> None:
        """Ignore an item."""


class InertUnpickler(pickle.Unpickler):
    """Unpickler of plain values only."""

    def find_class(self, _: str, __: str) -> type[OpaqueObject]:
        return OpaqueObject

    def persistent_load(self, _: Any) -> OpaqueObject:
        return OpaqueObject()


def saved(path: Path) -> Any:
    """
    Return the plain values of a file written by `torch.save`.

    Raises:
        ConfigError: The file was not written by `torch.save`.
    """
    accepted = "a file that torch.save wrote as a zip archive, as it does by default"
    try:
        with opened(path) as stream, zipfile.ZipFile(stream) as archive:
            infos = [info for info in archive.infolist() if info.filename.rpartition("/")[2] == PICKLE]
            if len(infos) != 1:
                raise refused(str(path), PICKLE, f"is in it {len(infos)} times", accepted)
            if infos[0].compress_type != zipfile.ZIP_STORED or infos[0].compress_size != infos[0].file_size:
                raise refused(str(path), PICKLE, "is compressed, which torch.save does not", accepted)
            if infos[0].file_size > MAX_BYTES:
                raise refused(str(path), PICKLE, f"has {infos[0].file_size} bytes", f"at most {MAX_BYTES}")
            with archive.open(infos[0]) as pickled:
                return InertUnpickler(pickled).load()
    except (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError) as error:
        raise refused(str(path), "the file", "is not a complete zip archive", accepted) from error
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        EOFError,
    ) as error:
        raise refused(str(path), PICKLE, "is damaged", accepted) from error
    except (MemoryError, RecursionError, ImportError) as error:
        raise refused(str(path), PICKLE, "is damaged, or too large for the memory", accepted) from error

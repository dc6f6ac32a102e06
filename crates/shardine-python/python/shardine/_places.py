"""URLs and the options for stores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

#: What is needed besides a URL to open a data set again; goes into pickles.
Options = dict[str, Any]


def options(
    store_options: Mapping[str, str] | None,
    anonymous: bool,
    single_writer: bool,
    zarr_format: int | None,
) -> Options:
    """The options of a call, in the form in which they are kept."""
    pairs = [(str(name), str(value)) for name, value in (store_options or {}).items()]
    return {
        "store_options": pairs,
        "anonymous": bool(anonymous),
        "single_writer": bool(single_writer),
        "zarr_format": zarr_format,
    }


def text(url: str | os.PathLike[str]) -> str:
    """A URL as text, or an absolute path: a handle is opened again wherever its process is then."""
    given = os.fspath(url)
    if given == "" or (isinstance(url, str) and "://" in given):
        return given
    return os.path.join(os.getcwd(), given)

"""Bars for jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: What `progress=` takes.
Progress = bool | Callable[[int, int], object] | None


class Bar:
    """Calls for a job's progress: a bar of tqdm, a function of the caller, or nothing."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.callback: Callable[[int, int], object] | None = None
        self._bar: Any = None
        if callable(progress):
            self.callback = progress
        elif progress or (progress is None and _is_watched()):
            self._bar = _tqdm(name, needed=bool(progress))
            if self._bar is not None:
                self.callback = self._draw

    def _draw(self, done: int, total: int) -> None:
        bar = self._bar
        if total != bar.total:
            bar.total = total or None
        bar.update(done - bar.n)

    def __enter__(self) -> Callable[[int, int], object] | None:
        return self.callback

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    """Whether there is somebody to look at a bar: a notebook, or a terminal."""
    if _in_notebook():
        return True
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):
        return False


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _tqdm(name: str, *, needed: bool) -> Any:
    try:
        if _in_notebook():
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        if needed:
            message = "progress=True needs tqdm; install it, or give a function of (done, total)"
            raise ImportError(message) from None
        return None
    return tqdm(desc=name, unit="", unit_scale=True, leave=False, delay=0.5)

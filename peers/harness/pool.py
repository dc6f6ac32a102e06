"""Worker processes that run cases, and a watchdog that ends those that hang."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from .run import Outcome, Setup, run_case

CASE_LIMIT = 240.0
"""Seconds that one case may take before its worker is ended."""


Runner = Callable[[Setup, int], Outcome]


def _work(connection: Connection, setup: Setup, run: Runner) -> None:
    while True:
        index = connection.recv()
        if index is None:
            return
        try:
            outcome = run(setup, index)
        except Exception:
            outcome = Outcome(index, failed=[("harness", traceback.format_exc())])
        connection.send(outcome)


class _Worker:
    """One process that runs one case at a time."""

    def __init__(self, setup: Setup, run: Runner) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, far_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_work, args=(far_end, setup, run), daemon=True
        )
        self.process.start()
        far_end.close()
        self.index: int | None = None
        self.started = 0.0

    def begin(self, index: int) -> None:
        self.index = index
        self.started = time.monotonic()
        self.connection.send(index)

    def end(self) -> None:
        """Lets an idle process go, and kills one that is at work."""
        if self.index is None and self.process.is_alive():
            self.connection.send(None)
            self.process.join(timeout=5)
        self.process.kill()
        self.process.join()


def run_cases(
    setup: Setup, indices: list[int], jobs: int, run: Runner = run_case
) -> Iterator[Outcome]:
    """Runs the cases on `jobs` processes; yields outcomes as they come."""
    waiting = list(reversed(indices))
    workers = [_Worker(setup, run) for _ in range(min(jobs, len(indices)))]
    try:
        for worker in workers:
            worker.begin(waiting.pop())
        while any(worker.index is not None for worker in workers):
            busy = [worker.connection for worker in workers if worker.index is not None]
            ready = wait(busy, timeout=1.0)
            for position, worker in enumerate(workers):
                outcome = _collect(worker, worker.connection in ready)
                if outcome is None:
                    continue
                yield outcome
                if not worker.process.is_alive():
                    workers[position] = worker = _Worker(setup, run)
                if waiting:
                    worker.begin(waiting.pop())
    finally:
        for worker in workers:
            worker.end()


def _collect(worker: _Worker, ready: bool) -> Outcome | None:
    """The outcome of a worker's case, if it has ended in one way or another."""
    index = worker.index
    if index is None:
        return None
    if ready:
        try:
            outcome: Outcome = worker.connection.recv()
        except EOFError:
            worker.process.join()
            reason = f"the worker died with status {worker.process.exitcode}"
            outcome = Outcome(index, failed=[("worker", reason)])
    elif time.monotonic() - worker.started > CASE_LIMIT:
        worker.end()
        outcome = Outcome(index, failed=[("worker", f"no end after {CASE_LIMIT:.0f} s")])
    else:
        return None
    worker.index = None
    return outcome

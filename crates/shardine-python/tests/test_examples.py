"""The examples in docstrings."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import shardine
from shardine import _array, _attributes, _engine, _jobs, _kv, _sets, vectors


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in (shardine, _array, _attributes, _engine, _jobs, _kv, _sets, vectors):
        public = {name: value for name, value in vars(module).items() if inspect.isclass(value) or inspect.isfunction(value)}
        tests = finder.find(module, module.__name__, module=False) if module in (shardine, vectors) else []
        for value in public.values():
            if getattr(value, "__module__", "").startswith("shardine"):
                tests += finder.find(value, f"{module.__name__}.{value.__qualname__}", module=False)
        yield from (test for test in tests if test.examples)


FOUND = {test.name.rsplit(".", 1)[-1] + str(test.lineno): test for test in examples()}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_example(name, folder):
    test = FOUND[name]
    test.globs = {"shardine": shardine, "np": np, "folder": folder}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_there_are_examples():
    assert len(FOUND) >= 40

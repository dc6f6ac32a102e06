"""What all tests use."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def folder(tmp_path):
    """An empty folder."""
    return tmp_path


@pytest.fixture
def cases(request):
    """How many random cases to try: a part of them unless SHARDINE_CASES says otherwise."""
    return int(os.environ.get("SHARDINE_CASES", 60))


@pytest.fixture
def seed():
    return int(os.environ.get("SHARDINE_SEED", 1))

"""Every test of `SubtaskState` runs over both backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.state import BackendSpec

NewBackend = Callable[[], BackendSpec]


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BackendSpec:
    """In memory, or in a database that all processes of the test share: who finds it in use builds a private one."""
    if request.param == "hashmap":
        return BackendSpec()
    return BackendSpec("rocksdb", str(tmp_path_factory.mktemp("local")), lock_timeout=0)

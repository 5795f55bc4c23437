"""The package offers what its `__all__` lists, and its docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import millrace.cep


def test_all_is_sorted_and_complete() -> None:
    names = millrace.cep.__all__
    assert names == sorted(names)
    public = {
        name
        for name, thing in vars(millrace.cep).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert public == set(names)


@pytest.mark.parametrize("module", [module.name for module in pkgutil.iter_modules(millrace.cep.__path__)])
def test_the_examples_in_docstrings_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"millrace.cep.{module}")).failed == 0

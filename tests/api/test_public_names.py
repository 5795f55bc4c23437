"""What a package offers is what its ``__all__`` lists: sorted, without duplicates, and all there."""

import importlib
from pathlib import Path

import pytest

import millrace

ROOT = Path(millrace.__file__).parent
PACKAGES = sorted(
    ".".join(("millrace", *file.parent.relative_to(ROOT).parts)) for file in ROOT.rglob("__init__.py")
)

# The packages that a program imports from; these must say what they offer.
PUBLIC = ["millrace.common", "millrace.datastream", "millrace.datastream.connectors", "millrace.metrics"]


@pytest.mark.parametrize("package", PUBLIC)
def test_a_public_package_lists_its_names(package: str) -> None:
    assert importlib.import_module(package).__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_of_a_package_are_sorted_and_there(package: str) -> None:
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", ()))
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(module, name)] == []

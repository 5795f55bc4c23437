"""What the programs of this folder are run with."""

from tests.examples.conftest import run

__all__ = ["run"]

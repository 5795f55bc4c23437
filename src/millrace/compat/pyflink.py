"""Lets a program written for PyFlink run unchanged: ``import pyflink...`` resolves to ``millrace...``.

Importing this module installs the bridge for the whole process. From then on ``pyflink.datastream.state``
**is** ``millrace.datastream.state``, the same module object under a second name, so that a class has one
identity however it was imported::

    import millrace.compat.pyflink
    from pyflink.common import Types      # the very class that `from millrace.common import Types` gives

A name that Millrace lacks raises an ImportError which says whether it needs a JVM or is not there yet. The
bridge does not mix with the real PyFlink: where that is installed, it refuses.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from millrace.compat.jvm_names import jvm_reason, reason_missing

__all__ = ["install", "uninstall"]

_ALIAS = "pyflink"
_REAL = "millrace"

# Modules whose content is the bridge's own.
_OWN = {
    "pyflink.java_gateway": "millrace.compat.java_gateway",
    "pyflink.version": "millrace.compat.version",
}

# Millrace's own rooms: a PyFlink program has no business there, even where a name happens to fit.
_ROOMS = frozenset({"common", "datastream", "java_gateway", "metrics", "table", "util", "version"})


def _real_name(alias: str) -> str:
    return _OWN.get(alias) or _REAL + alias.removeprefix(_ALIAS)


def _pyflink_name(alias: str) -> str:
    """``pyflink.common.time`` -> ``common.time``."""
    return alias.removeprefix(_ALIAS).removeprefix(".")


class _AliasLoader(importlib.abc.Loader):
    """Puts the module of Millrace into ``sys.modules`` under PyFlink's name as well."""

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__name__
        real = importlib.import_module(_real_name(alias))
        _explain_missing_names(real, _pyflink_name(alias))
        sys.modules[alias] = real


class _RootLoader(importlib.abc.Loader):
    """Makes the package ``pyflink`` itself: empty but for its submodules."""

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "PyFlink's names, answered by Millrace (millrace.compat.pyflink)."
        _explain_missing_names(module, "")


class _PyflinkFinder(importlib.abc.MetaPathFinder):
    """Answers for ``pyflink`` and everything below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == _ALIAS:
            return importlib.machinery.ModuleSpec(fullname, _RootLoader(), is_package=True)
        if not fullname.startswith(_ALIAS + "."):
            return None
        if not _exists(fullname):
            raise ModuleNotFoundError(reason_missing(_pyflink_name(fullname)), name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _AliasLoader())


def _exists(alias: str) -> bool:
    """Whether Millrace has a module to answer for this one; Python has imported its parents already."""
    if alias.split(".")[1] not in _ROOMS:
        return False
    real = _real_name(alias)
    return real in sys.modules or importlib.util.find_spec(real) is not None


def _explain_missing_names(module: ModuleType, name: str) -> None:
    """Has the module tell why a name is missing, where it would only say that it is."""
    previous: Callable[[str], Any] | None = module.__dict__.get("__getattr__")
    if getattr(previous, "explains", False):
        return

    def __getattr__(attribute: str) -> Any:  # noqa: N807 - the module's own hook (PEP 562)
        if previous is not None:
            try:
                return previous(attribute)
            except AttributeError:
                pass
        raise _missing(module, f"{name}.{attribute}".removeprefix("."), attribute)

    __getattr__.explains = True  # type: ignore[attr-defined]
    __getattr__.previous = previous  # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = __getattr__


def _missing(module: ModuleType, name: str, attribute: str) -> ImportError | AttributeError:
    """An ImportError for what looks like PyFlink's: ``from m import x`` swallows an AttributeError's text.

    Lower-case names are submodules not imported yet, or are probed for with ``hasattr``; those get what
    Python gives.
    """
    if attribute[:1].isupper() or (jvm_reason(name) and not attribute.startswith("__")):
        return ImportError(reason_missing(name), name=module.__name__)
    return AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")


_finder = _PyflinkFinder()


def install() -> None:
    """Installs the bridge; does nothing where it is installed already."""
    if _finder in sys.meta_path:
        return
    _refuse_real_pyflink()
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Takes the bridge away again, for tests."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for alias in [name for name in sys.modules if name == _ALIAS or name.startswith(_ALIAS + ".")]:
        _restore(sys.modules.pop(alias))


def _restore(module: ModuleType) -> None:
    hook = module.__dict__.get("__getattr__")
    if not getattr(hook, "explains", False):
        return
    del module.__dict__["__getattr__"]
    if hook.previous is not None:  # type: ignore[union-attr]
        module.__dict__["__getattr__"] = hook.previous  # type: ignore[union-attr]


def _refuse_real_pyflink() -> None:
    if _ALIAS in sys.modules:
        raise ImportError(
            f"pyflink is already imported from {_place(sys.modules[_ALIAS].__spec__)}; its classes and "
            "Millrace's do not mix. Action: import millrace.compat.pyflink before anything from pyflink, "
            "without apache-flink installed."
        )
    spec = importlib.util.find_spec(_ALIAS)
    if spec is not None:
        raise ImportError(
            f"the real PyFlink is installed in {_place(spec)}; it would be hidden by Millrace's. "
            "Action: uninstall apache-flink from this environment, or import from millrace instead."
        )


def _place(spec: importlib.machinery.ModuleSpec | None) -> str:
    if spec is None:
        return "an unknown place"
    return spec.origin or ", ".join(spec.submodule_search_locations or ["an unknown place"])


install()

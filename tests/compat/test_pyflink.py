"""``import pyflink...`` gives Millrace's own modules."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import millrace.compat.pyflink as bridge
from millrace.common.errors import JvmOnlyError
from millrace.compat.jvm_names import JVM_NAMES


@pytest.fixture(autouse=True)
def _bridge() -> Iterator[None]:
    bridge.install()
    yield
    bridge.uninstall()


@pytest.fixture
def fake_util(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package ``millrace.util.fake`` with a module in it, for what does not depend on the rooms."""
    import millrace.util

    package = tmp_path / "fake"
    package.mkdir()
    (package / "__init__.py").write_text("class Known: ...\n")
    (package / "inner.py").write_text("class Inner: ...\n")
    monkeypatch.setattr(millrace.util, "__path__", [*millrace.util.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.startswith("millrace.util.fake")]:
        del sys.modules[name]
    vars(millrace.util).pop("fake", None)


MODULES = [
    "common",
    "common.configuration",
    "common.serialization",
    "common.time",
    "common.typeinfo",
    "common.types",
    "common.watermark_strategy",
    "datastream",
    "datastream.connectors",
    "datastream.connectors.base",
    "datastream.data_stream",
    "datastream.functions",
    "datastream.output_tag",
    "datastream.state",
    "datastream.stream_execution_environment",
    "metrics",
    "metrics.metricbase",
    "util.exceptions",
]


@pytest.mark.parametrize("name", MODULES)
def test_a_pyflink_module_is_the_millrace_module(name: str) -> None:
    assert importlib.import_module(f"pyflink.{name}") is importlib.import_module(f"millrace.{name}")


def test_a_class_has_one_identity_under_both_names() -> None:
    import pyflink.common

    import millrace.common

    assert pyflink.common.Row is millrace.common.Row


def test_submodules_are_reached_as_attributes(fake_util: None) -> None:
    import millrace.util.fake.inner
    import pyflink.util.fake.inner

    assert pyflink.util.fake.inner.Inner is millrace.util.fake.inner.Inner


def test_from_package_import_submodule(fake_util: None) -> None:
    from pyflink.util.fake import inner

    assert inner.__name__ == "millrace.util.fake.inner"


def test_the_spec_of_the_real_module_stays_its_own(fake_util: None) -> None:
    module = importlib.import_module("pyflink.util.fake.inner")
    assert module.__spec__ is not None
    assert module.__spec__.name == "millrace.util.fake.inner"


def test_version_is_that_of_the_mirrored_pyflink() -> None:
    from pyflink.version import __version__

    assert __version__.startswith("2.3")


def test_the_gateway_says_that_there_is_no_jvm() -> None:
    from pyflink.java_gateway import get_gateway

    with pytest.raises(JvmOnlyError, match="get_gateway needs a JVM, which Millrace does not have"):
        get_gateway()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("datastream.connectors.pulsar", "it wraps a connector's jar"),
        ("fn_execution", "it belongs to PyFlink's own worker"),
        ("util.java_utils", "there is no gateway"),
    ],
)
def test_a_module_that_needs_the_jvm_says_so(name: str, reason: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"{name} needs the JVM, Millrace has none: {reason}"):
        importlib.import_module(f"pyflink.{name}")


def test_a_jvm_name_in_a_known_module_says_so() -> None:
    with pytest.raises(ImportError, match=r"JavaException needs the JVM, Millrace has none"):
        from pyflink.util.exceptions import JavaException  # noqa: F401


def test_a_class_that_is_not_there_yet_says_so(fake_util: None) -> None:
    with pytest.raises(
        ImportError, match=r"pyflink\.util\.fake\.Unknown is not in Millrace: it is not there yet"
    ):
        from pyflink.util.fake import Unknown  # noqa: F401


def test_a_module_that_is_not_there_yet_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pyflink\.util\.nothing is not in Millrace"):
        importlib.import_module("pyflink.util.nothing")


@pytest.mark.parametrize("room", ["runtime", "spark", "cli"])
def test_rooms_that_pyflink_does_not_have_stay_out_of_reach(room: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"pyflink.{room} is not in Millrace"):
        importlib.import_module(f"pyflink.{room}")


def test_probing_for_an_attribute_is_answered_as_python_does(fake_util: None) -> None:
    module = importlib.import_module("pyflink.util.fake")
    assert not hasattr(module, "pytest_plugins")
    assert not hasattr(module, "__wrapped__")


def test_a_module_keeps_its_own_lazy_names(fake_util: None, tmp_path: Path) -> None:
    (tmp_path / "fake" / "lazy.py").write_text(
        "def __getattr__(name):\n    if name == 'later': return 7\n    raise AttributeError(name)\n"
    )
    importlib.invalidate_caches()
    lazy = importlib.import_module("pyflink.util.fake.lazy")
    assert lazy.later == 7
    with pytest.raises(ImportError, match="Unknown is not in Millrace"):
        _ = lazy.Unknown


def test_installing_twice_installs_once() -> None:
    bridge.install()
    assert sum(isinstance(finder, bridge._PyflinkFinder) for finder in sys.meta_path) == 1


def test_uninstalling_leaves_no_trace(fake_util: None) -> None:
    module = importlib.import_module("pyflink.util.fake")
    bridge.uninstall()
    assert "__getattr__" not in vars(module)
    with pytest.raises(ModuleNotFoundError, match="No module named 'pyflink'"):
        importlib.import_module("pyflink")


def test_a_real_pyflink_that_is_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge.uninstall()
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ImportError, match=r"the real PyFlink is installed in .*Action: uninstall apache-flink"
    ):
        bridge.install()


def test_a_real_pyflink_that_is_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge.uninstall()
    (tmp_path / "pyflink.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("pyflink")
    with pytest.raises(ImportError, match="pyflink is already imported from"):
        bridge.install()


def test_every_jvm_name_says_what_it_is_in_one_line() -> None:
    assert all(reason and "\n" not in reason for reason in JVM_NAMES.values())

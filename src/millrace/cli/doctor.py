"""`millrace doctor`: looks at the machine, and says what to do about what is missing."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import NamedTuple

from millrace.cli.options import Verbs

_PYTHON = (3, 11)
# Spark 4 runs on Java 17 and 21.
_JAVA = 17
# Pinned in pyproject.toml: Millrace leans on the order of Spark's calls.
_SPARK = "4.3."
# Spark 4.3 does not know pandas 3.
_PANDAS_BELOW = 3
# The embedded JVM takes 1 GiB by default; what is left is for Python's workers.
_MEMORY_GIB = 2.0
# Buffers on their way between stages, and checkpoints, go to the temporary directory.
_DISK_GIB = 1.0
_GIB = 2**30


class Finding(NamedTuple):
    """What one check saw. `action` says what to do; None: all is well."""

    subject: str
    seen: str
    action: str | None = None

    def line(self) -> str:
        """The finding as it is printed."""
        if self.action is None:
            return f"ok    {self.subject}: {self.seen}"
        return f"FAIL  {self.subject}: {self.seen}. Action: {self.action}"


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser(
        "doctor", help="check this machine", description="Checks what Millrace needs of this machine."
    )
    parser.set_defaults(act=act)


def act(_options: argparse.Namespace) -> int:
    """Print a line for each check; 1 when one of them failed."""
    findings = list(examine())
    for finding in findings:
        print(finding.line())
    return 1 if any(finding.action for finding in findings) else 0


def examine() -> Iterator[Finding]:
    """All checks, one after the other."""
    for check in CHECKS:
        yield check()


def check_python() -> Finding:
    seen = f"{sys.version.split()[0]} ({sys.executable})"
    wanted = ".".join(map(str, _PYTHON))
    return Finding("Python", seen, None if sys.version_info >= _PYTHON else f"Use Python {wanted} or newer.")


def check_workers_python() -> Finding:
    """Workers must be the same Python as the driver: functions are pickled from one to the other."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen is None:
        return Finding("Python of the workers", "the same")
    if shutil.which(chosen) is None:
        return Finding("Python of the workers", f"none (PYSPARK_PYTHON={chosen})", "Unset PYSPARK_PYTHON.")
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([chosen, "-c", program], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Finding(
        "Python of the workers",
        f"{found or 'none'} (PYSPARK_PYTHON={chosen})",
        None if found == ours else f"Unset PYSPARK_PYTHON, or point it to a Python {ours}.",
    )


def check_java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    where = f" (JAVA_HOME={home})" if home else f" ({java})"
    install = f"Install Java {_JAVA} or newer (openjdk-{_JAVA}-jre-headless, or openjdk@{_JAVA} with brew)"
    major = java_major(_said_by(java)) if java else None
    if major is None:
        action = f"Point JAVA_HOME to Java {_JAVA} or newer, or unset it." if home else f"{install}."
        return Finding("Java", f"none{where if home else ''}", action)
    return Finding("Java", f"{major}{where}", None if major >= _JAVA else f"{install}, or point JAVA_HOME to one.")


def java_major(said: str) -> int | None:
    """The major version in what `java -version` says.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_402"'), java_major("")
    (17, 8, None)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _said_by(java: str) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""


def check_pyspark() -> Finding:
    version = installed("pyspark")
    fine = version is not None and version.startswith(_SPARK)
    return Finding("pyspark", version or "none", None if fine else f"pip install 'pyspark=={_SPARK}*'")


def check_spark_home() -> Finding:
    """pyspark starts the Spark that SPARK_HOME names, whatever version that is."""
    home = os.environ.get("SPARK_HOME")
    spec = util.find_spec("pyspark")
    ours = Path(spec.origin).resolve().parent if spec and spec.origin else None
    if home is None or Path(home).resolve() == ours:
        return Finding("SPARK_HOME", home or "not set")
    return Finding("SPARK_HOME", home, "Unset it, so that pyspark starts the Spark that belongs to it.")


def check_pandas() -> Finding:
    version = installed("pandas")
    fine = version is not None and int(version.split(".")[0]) < _PANDAS_BELOW
    return Finding("pandas", version or "none", None if fine else f"pip install 'pandas>=2.2,<{_PANDAS_BELOW}'")


def check_pyarrow() -> Finding:
    version = installed("pyarrow")
    return Finding("pyarrow", version or "none", None if version else "pip install pyarrow")


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_loopback() -> Finding:
    """The driver, the JVM and the workers speak to each other over 127.0.0.1, on ports that the system gives."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
    except OSError as error:
        return Finding("Loopback", str(error), "Allow connections to 127.0.0.1, in the firewall or the sandbox.")
    return Finding("Loopback", "127.0.0.1 can be listened on and connected to")


def check_memory() -> Finding:
    free = available_memory()
    if free is None:
        return Finding("Memory", "unknown")
    action = f"Free some: Spark and the workers want {_MEMORY_GIB:.0f} GiB." if free < _MEMORY_GIB * _GIB else None
    return Finding("Memory", f"{free / _GIB:.1f} GiB available", action)


def available_memory() -> int | None:
    """Bytes that a new process may take; None where the system does not tell."""
    free: list[int] = []
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        free += [int(found[1]) * 1024] if found else []
    with contextlib.suppress(OSError, ValueError):  # The limit of a container; "max" is none.
        group = Path("/sys/fs/cgroup")
        limit = int(group.joinpath("memory.max").read_text(encoding="ascii"))
        free.append(limit - int(group.joinpath("memory.current").read_text(encoding="ascii")))
    return min(free, default=None)


def check_temporary_directory() -> Finding:
    place = tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"millrace")
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Finding("Temporary directory", f"{place}: {error}", "Point TMPDIR to a directory that can be written.")
    action = "Free some space there, or point TMPDIR elsewhere." if free < _DISK_GIB * _GIB else None
    return Finding("Temporary directory", f"{place}, {free / _GIB:.0f} GiB free", action)


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_workers_python,
    check_java,
    check_pyspark,
    check_spark_home,
    check_pandas,
    check_pyarrow,
    check_loopback,
    check_memory,
    check_temporary_directory,
)

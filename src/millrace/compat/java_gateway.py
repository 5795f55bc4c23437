"""What a program finds as ``pyflink.java_gateway``: a clear refusal."""

from typing import NoReturn

from millrace.common.errors import JvmOnlyError

__all__ = ["get_gateway"]


def get_gateway() -> NoReturn:
    """Always raises: behind Millrace stands no JVM of Flink's that a program could reach into."""
    raise JvmOnlyError.of(
        "pyflink.java_gateway.get_gateway", "Look for what you need in Millrace's own Python API."
    )

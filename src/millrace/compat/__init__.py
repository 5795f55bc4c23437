"""Bridges for programs written against other names than Millrace's."""

__all__: list[str] = []

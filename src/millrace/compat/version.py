"""What a program finds as ``pyflink.version``: the PyFlink whose names Millrace mirrors."""

__all__ = ["__version__"]

__version__ = "2.3.0"

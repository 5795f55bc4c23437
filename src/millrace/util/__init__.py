"""What PyFlink keeps in ``pyflink.util`` and a program may name: its exceptions."""

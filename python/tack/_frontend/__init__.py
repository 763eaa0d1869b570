"""From a Python function to the program of a kernel.

source.py keeps a function's text, names.py finds what it captures. expressions.py, vectors.py,
calls.py, variables.py and statements.py translate a function, in that order each on top of the one
before; program.py puts a kernel and its device functions together.
"""

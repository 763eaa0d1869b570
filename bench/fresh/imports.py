"""Time and memory of importing the module that the argument names."""

import sys

from probe import report, resident_bytes, seconds

before = resident_bytes()
time = seconds(lambda: __import__(sys.argv[1]))
report(time=time, resident=resident_bytes() - before)

"""What the scripts of this folder measure with. It imports only what Python has loaded by then."""

import os
from time import perf_counter_ns


def seconds(call):
    start = perf_counter_ns()
    call()
    return (perf_counter_ns() - start) * 1e-9


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(**figures):
    # Marked, since libraries print lines of their own.
    for name, figure in figures.items():
        print("figure", name, figure)

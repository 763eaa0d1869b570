"""What two MPI processes do with Tack arrays; run by test_partners.py. A failed assert fails it."""

from mpi4py import MPI

import tack
from tack.interop.dlpack import dlpack_to_array, live_exports

comm = MPI.COMM_WORLD
rank = comm.rank
assert comm.size == 2


@tack.kernel
def square(x):
    for i in range(x.size):
        x[i] = x[i] * x[i]


# fbpic/fbpic#226: a kernel, then a send of the same array, gives finished data
data = tack.arange(1000, dtype=tack.float64) if rank == 0 else tack.zeros(1000, tack.float64)
if rank == 0:
    square(data)
    comm.Send(data, dest=1)
else:
    comm.Recv(data, source=0)
assert data.tolist() == [float(k * k) for k in range(1000)]

total = tack.zeros(1000, tack.float64)
comm.Allreduce(data, total)
assert total[999] == 2 * 999.0**2

# a rank without elements
counts = [3, 0]
part = tack.full(counts[rank], 5, tack.int32)
gathered = tack.zeros(3, tack.int32)
comm.Gatherv(part, [gathered, counts] if rank == 0 else None)
assert rank != 0 or gathered.tolist() == [5, 5, 5]

# inducer/pycuda#182: receiving into a read-only array is refused
read_only = dlpack_to_array(tack.zeros(4), writable=False)
try:
    comm.Irecv(read_only, source=1 - rank)
except BufferError:
    pass
else:
    raise AssertionError("a read-only array was received into")
comm.Sendrecv(read_only, dest=1 - rank, recvbuf=(other := tack.ones(4)), source=1 - rank)
assert other.tolist() == [0, 0, 0, 0]

# Tack as the reader of MPI's own memory
memory = MPI.Alloc_mem(32)
assert tack.asarray(memory).nbytes == 32
MPI.Free_mem(memory)

del read_only  # which holds an export of the array under it
assert live_exports() == 0

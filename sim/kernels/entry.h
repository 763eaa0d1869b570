/* What a compiled kernel and the runner of its blocks share. Included by kernels, which see no
   standard header. */
#ifndef TACK_SIM_ENTRY_H
#define TACK_SIM_ENTRY_H

extern "C" struct tack_sim_launch;

namespace tack_sim {

/// tack_sim_kernel of cuda/module_abi.h.
struct KernelEntry {
    const char* name;
    unsigned parameter_count;
    const unsigned* parameter_sizes;
    void (*invoke)(void* const* parameters, const tack_sim_launch* launch);
    unsigned uses_barriers;
    unsigned static_shared_bytes;
};

/// tack_sim_symbol of cuda/module_abi.h.
struct SymbolEntry {
    const char* name;
    void* address;
    unsigned long long size;
};

/// Runs one thread of a kernel, whose indices are in threadIdx and blockIdx.
using Thread = void(void* const* parameters);

/// All threads of all blocks, one after another; with barriers, the threads of a block take turns.
void run_grid(Thread* thread, void* const* parameters, const tack_sim_launch* launch,
              bool uses_barriers);

/// Ends the launch as failed unless every thread of the block comes to this line.
void wait_at_barrier(int line);

[[noreturn]] void fail(const char* what, const char* file, int line);

/// The launch's dynamic shared memory.
void* dynamic_shared();

}  // namespace tack_sim

#endif

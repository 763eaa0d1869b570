// Linked into every image. It must not need the C++ standard library, which images are not linked
// with.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "cuda/module_abi.h"
#include "kernels/entry.h"

using tack_sim::KernelEntry;
static_assert(sizeof(KernelEntry) == sizeof(tack_sim_kernel));
static_assert(offsetof(KernelEntry, parameter_sizes) == offsetof(tack_sim_kernel, parameter_sizes));
static_assert(offsetof(KernelEntry, invoke) == offsetof(tack_sim_kernel, invoke));
static_assert(offsetof(KernelEntry, uses_barriers) == offsetof(tack_sim_kernel, uses_barriers));
static_assert(sizeof(tack_sim::SymbolEntry) == sizeof(tack_sim_symbol));

// Constants to kernels.
struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr unsigned most_threads = 1024;
constexpr size_t stack_bytes = 64 << 10;
constexpr size_t guard_bytes = 4 << 10;

struct Fiber {
    ucontext_t context;
    uint3 index;
    int line;  // of the barrier at which it waits; 0: it does not
};

const tack_sim_launch* launch;
tack_sim::Thread* thread_function;
void* const* arguments;

// A launch that fails leaves all this as it is: run_block begins anew.
char* stacks;
Fiber fibers[most_threads];
Fiber* running;
unsigned started, threads;
ucontext_t scheduler;

void start_next_thread() {
    const unsigned i = started++;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

/// A fiber goes on to the next thread until one waits at a barrier: without any, one does it all.
void fiber_main() {
    while (started < threads) {
        start_next_thread();
        thread_function(arguments);
    }
}

void resume(Fiber& fiber) {
    fiber.line = 0;
    running = &fiber;
    swapcontext(&scheduler, &fiber.context);
}

void make_stacks() {
    constexpr size_t each = stack_bytes + guard_bytes;
    void* memory = mmap(nullptr, most_threads * each, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) launch->fail("no memory for the stacks of a block's threads");
    stacks = static_cast<char*>(memory);
    for (unsigned i = 0; i < most_threads; ++i) mprotect(stacks + i * each, guard_bytes, PROT_NONE);
}

[[gnu::destructor]] void free_stacks() {
    if (stacks) munmap(stacks, most_threads * (stack_bytes + guard_bytes));
}

void start(Fiber& fiber) {
    char* stack = stacks + (&fiber - fibers) * (stack_bytes + guard_bytes) + guard_bytes;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, fiber_main, 0);
    resume(fiber);
}

/// Moves the waiting fibers to the front of `waiting` and gives their number.
unsigned gather(Fiber** waiting, unsigned count) {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; ++i)
        if (waiting[i]->line) waiting[kept++] = waiting[i];
    return kept;
}

void check_barrier(Fiber* const* waiting, unsigned count) {
    char text[200];
    const int line = waiting[0]->line;
    if (count < threads) {
        snprintf(text, sizeof text,
                 "divergent barrier: %u of block (%u, %u, %u)'s %u threads wait in line %d, "
                 "the others have returned",
                 count, blockIdx.x, blockIdx.y, blockIdx.z, threads, line);
        launch->fail(text);
    }
    for (unsigned i = 1; i < count; ++i) {
        if (waiting[i]->line == line) continue;
        snprintf(text, sizeof text,
                 "divergent barrier: threads of block (%u, %u, %u) wait in line %d and in line %d",
                 blockIdx.x, blockIdx.y, blockIdx.z, line, waiting[i]->line);
        launch->fail(text);
    }
}

void run_block_with_barriers() {
    if (!stacks) make_stacks();
    Fiber* waiting[most_threads];
    started = 0;
    unsigned count = 0;
    while (started < threads) {
        waiting[count] = &fibers[count];
        start(fibers[count++]);
    }
    while ((count = gather(waiting, count)) > 0) {
        check_barrier(waiting, count);
        for (unsigned i = 0; i < count; ++i) resume(*waiting[i]);
    }
}

void run_block() {
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
        for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
                thread_function(arguments);
}

}  // namespace

void tack_sim::run_grid(Thread* thread, void* const* parameters, const tack_sim_launch* launch_,
                        bool uses_barriers) {
    launch = launch_;
    thread_function = thread;
    arguments = parameters;
    gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]};
    blockDim = {launch->block[0], launch->block[1], launch->block[2]};
    threads = blockDim.x * blockDim.y * blockDim.z;
    void (*const run)() = uses_barriers ? run_block_with_barriers : run_block;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) run();
}

void tack_sim::wait_at_barrier(int line) {
    Fiber& self = *running;
    self.index = threadIdx;
    self.line = line;
    swapcontext(&self.context, &scheduler);
    threadIdx = self.index;
}

void tack_sim::fail(const char* what, const char* file, int line) {
    char text[400];
    snprintf(text, sizeof text, "%s(%d): block (%u, %u, %u), thread (%u, %u, %u): %s", file, line,
             blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
    launch->fail(text);
    __builtin_unreachable();
}

void* tack_sim::dynamic_shared() { return launch->dynamic_shared; }

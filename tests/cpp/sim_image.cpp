// An image as the simulated CUDA driver takes them, with kernels for its tests.
#include "cuda/module_abi.h"

namespace {

int counter = 0;

// scale(float* x, float factor, int n): x[i] *= factor, one thread for each.
void scale(void* const* parameters, const tack_sim_launch* launch) {
    float* x = *static_cast<float* const*>(parameters[0]);
    float factor = *static_cast<const float*>(parameters[1]);
    int n = *static_cast<const int*>(parameters[2]);
    int threads = static_cast<int>(launch->grid[0] * launch->block[0]);
    for (int i = 0; i < threads && i < n; ++i) x[i] *= factor;
}

// count(int* out): *out = how often the image's variable was counted up.
void count(void* const* parameters, const tack_sim_launch*) {
    **static_cast<int* const*>(parameters[0]) = ++counter;
}

// shared_bytes(unsigned* out): touches all the dynamic shared memory and says how much it is.
void shared_bytes(void* const* parameters, const tack_sim_launch* launch) {
    auto* bytes = static_cast<unsigned char*>(launch->dynamic_shared);
    for (uint32_t i = 0; i < launch->dynamic_shared_bytes; ++i) bytes[i] = 1;
    **static_cast<unsigned* const*>(parameters[0]) = launch->dynamic_shared_bytes;
}

void give_up(void* const*, const tack_sim_launch* launch) { launch->fail("the kernel gave up"); }

const uint32_t scale_sizes[] = {8, 4, 4};
const uint32_t pointer_size[] = {8};

const tack_sim_kernel kernels[] = {
    {"scale", 3, scale_sizes, scale, 0, 0},
    {"count", 1, pointer_size, count, 0, 0},
    {"shared_bytes", 1, pointer_size, shared_bytes, 0, 0},
    {"give_up", 0, nullptr, give_up, 0, 0},
    {},
};

const tack_sim_symbol symbols[] = {{"counter", &counter, sizeof counter}, {}};

}  // namespace

#define TACK_SIM_EXPORT extern "C" __attribute__((visibility("default")))

TACK_SIM_EXPORT const tack_sim_kernel* const tack_sim_kernels;
TACK_SIM_EXPORT const tack_sim_symbol* const tack_sim_symbols;
const tack_sim_kernel* const tack_sim_kernels = kernels;
const tack_sim_symbol* const tack_sim_symbols = symbols;

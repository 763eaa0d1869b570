#include <cstring>

#include "cuda/driver.hpp"
#include "cuda/tack_sim.h"

#define TACK_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace tack_sim::cuda {

std::string live_objects();

namespace {

size_t copy_out(const std::string& text, char* buffer, size_t size) {
    if (buffer && size) {
        size_t bytes = std::min(size - 1, text.size());
        std::memcpy(buffer, text.data(), bytes);
        buffer[bytes] = 0;
    }
    return text.size() + 1;
}

std::string locked_live_objects() {
    Held held = Queue::instance().lock();
    return live_objects();
}

}  // namespace
}  // namespace tack_sim::cuda

using namespace tack_sim;

TACK_SIM_EXPORT int tack_sim_fail(const char* spec) {
    return set_failures(spec, cuda::unknown_error) ? 0 : 1;
}

TACK_SIM_EXPORT uint64_t tack_sim_call_count(const char* name) { return call_count(name); }

TACK_SIM_EXPORT void tack_sim_reset_counts() { reset_counts(); }

TACK_SIM_EXPORT uint64_t tack_sim_failed_count() { return failed_count(); }

TACK_SIM_EXPORT size_t tack_sim_calls(char* buffer, size_t size) {
    return cuda::copy_out(all_calls(), buffer, size);
}

TACK_SIM_EXPORT size_t tack_sim_live_objects(char* buffer, size_t size) {
    return cuda::copy_out(cuda::locked_live_objects(), buffer, size);
}

TACK_SIM_EXPORT size_t tack_sim_violations(char* buffer, size_t size) {
    return cuda::copy_out(violations(), buffer, size);
}

TACK_SIM_EXPORT void tack_sim_forget_violations() { forget_violations(); }

TACK_SIM_EXPORT uint64_t tack_sim_device_bytes() {
    cuda::Held held = Queue::instance().lock();
    uint64_t bytes = 0;
    for (auto& device : cuda::state().devices) bytes += device->bytes;
    return bytes;
}

TACK_SIM_EXPORT int tack_sim_host_can_read(const void* ptr) { return host_can_read(ptr); }

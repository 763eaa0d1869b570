#include "backend/cpu/backend.hpp"

#include "backend/cpu/compiler.hpp"
#include "backend/cpu/processor.hpp"
#include "tack/dlpack.hpp"

namespace tack::cpu {
namespace {

detail::Ref<Backend> create(int index, const DeviceOptions&) {
    if (index != 0) {
        throw Error(ErrorKind::runtime,
                    "device: cpu:" + std::to_string(index) + " of 1 device; the host is cpu:0");
    }
    return detail::make_ref<CpuBackend>();
}

BackendStatus status() { return {"cpu", "ready", processor_description()}; }

}  // namespace

CpuBackend::CpuBackend() : Backend("cpu", 0, last_level_cache_bytes()) {}

std::int32_t CpuBackend::dlpack_device_type() const noexcept { return dlpack::cpu; }

const BackendEntry entry{"cpu", {}, create, status};

}  // namespace tack::cpu

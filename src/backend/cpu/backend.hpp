/// The host as a device.
#pragma once

#include "backend/backend.hpp"
#include "device/registry.hpp"

namespace tack::cpu {

struct CpuBackend final : Backend {
    CpuBackend();  // backend.cpp

    // memory: buffer.cpp
    BufferRef allocate(std::int64_t nbytes, bool exportable) override;
    BufferRef wrap(void* address, std::int64_t nbytes, Hold&& hold) override;
    MemorySpace memory_space(const void* address) const override;
    void check_wrappable(const void* address, std::int64_t nbytes, bool writable,
                         const char* operation) const override;

    // work: launch.cpp
    detail::Ref<Executable> compile(const kernel::Specialization& kernel) override;
    void launch(Executable& executable, const LaunchArguments& arguments) override;
    void synchronize() override {}  // a launch has run when it returns
    std::string source(const kernel::Specialization& kernel) override;
    std::string assembly(const kernel::Specialization& kernel) override;

    // exchange: backend.cpp
    std::int32_t dlpack_device_type() const noexcept override;
    std::string memory_domain() const override { return name; }
};

extern const BackendEntry entry;  // backend.cpp

}  // namespace tack::cpu

#include "tack/device.hpp"

#include <utility>

#include "backend/backend.hpp"

namespace tack {

Device::Device() noexcept = default;
Device::Device(detail::Ref<Backend> backend) noexcept : backend_(std::move(backend)) {}
Device::Device(const Device&) noexcept = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(const Device&) noexcept = default;
Device& Device::operator=(Device&&) noexcept = default;
Device::~Device() = default;

std::string_view Device::name() const noexcept { return backend_->name; }
int Device::index() const noexcept { return backend_->index; }
std::string Device::memory_domain() const { return backend_->memory_domain(); }
MemorySpace Device::memory_space(const void* ptr) const { return backend_->memory_space(ptr); }
bool Device::shares_external_context() const noexcept {
    return backend_->shares_external_context();
}
std::uint64_t Device::stream() const noexcept { return backend_->stream(); }
void Device::wait_for_stream(std::uint64_t other) const { backend_->wait_for_stream(other); }
void Device::synchronize() const { backend_->synchronize(); }

std::string Device::to_string() const {
    return backend_->index == 0 ? backend_->name
                                : backend_->name + ":" + std::to_string(backend_->index);
}

}  // namespace tack

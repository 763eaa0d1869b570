/// The backends that this build knows, and the devices made from them.
#pragma once

#include <span>
#include <string_view>

#include "backend/backend.hpp"

namespace tack {

/// One row per backend; adding a backend adds a row to the table in registry.cpp.
struct BackendEntry {
    std::string_view name;
    std::span<const std::string_view> options;  // the device options it declares
    /// Throws runtime, with the reason in a sentence, where the device cannot be had.
    /// null: known by name, but not part of this build.
    detail::Ref<Backend> (*create)(int index, const DeviceOptions& options);
    BackendStatus (*status)();
    /// The device with this UUID, or -1: none has. null: devices have none. Throws as create().
    int (*find)(std::span<const std::uint8_t> uuid) = nullptr;
};
std::span<const BackendEntry> backend_entries();

/// The plain device of a backend that must exist; for the library's own use.
Device plain_device(std::string_view name, int index);

/// The same where it has been made, else an empty handle: no driver is started.
Device existing_plain_device(std::string_view name, int index);

/// The number of the backend's device with this UUID, or -1: none has it.
int find_device(std::string_view name, std::span<const std::uint8_t> uuid);

/// `device` itself, or the default device where it is empty.
Device device_or_default(const Device& device);

/// The first backend that wraps memory of a DLPack device type, or empty: none can.
/// Source: specification, "Match the device to the backend".
std::string_view backend_of_dlpack_device(std::int32_t device_type);

}  // namespace tack

#include "device/registry.hpp"

#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <utility>

#include "backend/cpu/backend.hpp"
#include "backend/cuda/backend.hpp"
#include "backend/gpu/queue.hpp"
#include "tack/dlpack.hpp"

namespace tack {
namespace {

constexpr BackendEntry not_built(std::string_view name) { return {name, {}, nullptr, nullptr}; }

/// Never destroyed: arrays may be dropped after static destructors have begun to run, so their
/// devices must outlive those.
struct Registry {
    std::mutex creating;  // held while a plain device is made, so that it is made once
    std::mutex table;     // held for a look-up only: no backend runs under it
    std::map<std::pair<std::string_view, int>, Device> plain;
    Device default_device;
    // The default where it is a plain device, which no one can destroy: read without a lock.
    std::atomic<Backend*> plain_default{nullptr};
};
Registry& registry() {
    static auto* const instance = new Registry;
    return *instance;
}

template <class Keep>
std::string list_names(Keep keep) {
    std::string names;
    for (const BackendEntry& entry : backend_entries())
        if (keep(entry)) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    return names;
}

const BackendEntry& find_entry(std::string_view name, std::string_view operation = "device") {
    for (const BackendEntry& entry : backend_entries()) {
        if (entry.name != name) continue;
        if (entry.create) return entry;
        throw Error(ErrorKind::runtime,
                    std::string(operation) + ": backend '" + std::string(name) +
                        "' is not part of this build of Tack " TACK_VERSION " (it has: " +
                        list_names([](const BackendEntry& e) { return e.create != nullptr; }) +
                        ")");
    }
    throw Error(ErrorKind::runtime, std::string(operation) + ": there is no backend '" +
                                        std::string(name) + "'; the known ones are " +
                                        list_names([](const BackendEntry&) { return true; }));
}

void check_options(const BackendEntry& entry, const DeviceOptions& options) {
    for (const auto& [option, value] : options) {
        std::string declared;
        bool known = false;
        for (const std::string_view name : entry.options) {
            known = known || name == option;
            declared += (declared.empty() ? "" : ", ") + std::string(name);
        }
        if (known) continue;
        throw Error(ErrorKind::value, "device: option '" + option + "' is unknown; " +
                                          std::string(entry.name) + " declares " +
                                          (declared.empty() ? "none" : declared));
    }
}

/// Splits "cuda:1"; `index` stays where the name carries none.
std::pair<std::string_view, int> parse(std::string_view text, int index) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    if (colon != text.npos) {
        const std::string_view digits = text.substr(colon + 1);
        const char* end = digits.data() + digits.size();
        int parsed = 0;
        const auto result = std::from_chars(digits.data(), end, parsed);
        if (digits.empty() || result.ec != std::errc() || result.ptr != end) {
            throw Error(ErrorKind::runtime, "device: '" + std::string(text) +
                                                "' does not end in the number of a device; write "
                                                "it as in \"cuda:1\"");
        }
        if (index != 0 && index != parsed) {
            throw Error(ErrorKind::value, "device: '" + std::string(text) + "' and index " +
                                              std::to_string(index) +
                                              " contradict each other; give one of them");
        }
        index = parsed;
    }
    if (index < 0) {
        throw Error(ErrorKind::runtime, "device: there is no " + std::string(name) + " device " +
                                            std::to_string(index) + "; they count from 0");
    }
    return {name, index};
}

Device plain_device(const BackendEntry& entry, int index) {
    if (Device existing = existing_plain_device(entry.name, index)) return existing;
    const std::lock_guard making(registry().creating);
    if (Device existing = existing_plain_device(entry.name, index)) return existing;
    Device made(entry.create(index, {}));
    made.backend().make_immortal();
    const std::lock_guard lock(registry().table);
    return registry().plain.emplace(std::pair(entry.name, index), made).first->second;
}

std::vector<Device> devices_in_use() {
    const std::lock_guard lock(registry().table);
    std::vector<Device> result;
    for (const auto& [key, device] : registry().plain) result.push_back(device);
    if (registry().default_device) result.push_back(registry().default_device);
    return result;
}

}  // namespace

std::span<const BackendEntry> backend_entries() {
    static const BackendEntry entries[] = {
        cpu::entry, cuda::entry, not_built("hip"), not_built("level_zero"), not_built("metal"),
    };
    return entries;
}

Device plain_device(std::string_view name, int index) {
    return plain_device(find_entry(name), index);
}

Device existing_plain_device(std::string_view name, int index) {
    const std::lock_guard lock(registry().table);
    const auto found = registry().plain.find({name, index});
    return found == registry().plain.end() ? Device() : found->second;
}

int find_device(std::string_view name, std::span<const std::uint8_t> uuid) {
    const BackendEntry& entry = find_entry(name);
    return entry.find ? entry.find(uuid) : -1;
}

Device device_or_default(const Device& device) { return device ? device : default_device(); }

std::string_view backend_of_dlpack_device(std::int32_t device_type) {
    switch (device_type) {
        case dlpack::cpu:
        case dlpack::cuda_host:
        case dlpack::rocm_host:
            return "cpu";
        case dlpack::cuda:
        case dlpack::cuda_managed:
            return "cuda";
        case dlpack::rocm:
            return "hip";
        case dlpack::oneapi:
            return "level_zero";
        default:
            return {};
    }
}

Device device(std::string_view text, int index, const DeviceOptions& options) {
    const auto [name, number] = parse(text, index);
    const BackendEntry& entry = find_entry(name);
    check_options(entry, options);
    if (!options.empty()) return Device(entry.create(number, options));
    return plain_device(entry, number);
}

std::vector<std::string> device_options(std::string_view backend) {
    const BackendEntry& entry = find_entry(backend, "device_options");
    return {entry.options.begin(), entry.options.end()};
}

Device default_device() {
    if (Backend* plain = registry().plain_default.load(std::memory_order_acquire)) {
        return Device(detail::Ref<Backend>(plain));
    }
    const Device initial = plain_device("cpu", 0);
    const std::lock_guard lock(registry().table);
    if (!registry().default_device) {
        registry().default_device = initial;
        registry().plain_default.store(&initial.backend(), std::memory_order_release);
    }
    return registry().default_device;
}

Device set_default_device(const Device& device) {
    if (!device) {
        throw Error(ErrorKind::value,
                    "set_default_device: the device is empty; pass one that device() returned");
    }
    const bool plain = existing_plain_device(device.name(), device.index()) == device;
    Device previous = device;  // destroyed after the lock, if this was its last reference
    const std::lock_guard lock(registry().table);
    std::swap(registry().default_device, previous);
    registry().plain_default.store(plain ? &device.backend() : nullptr, std::memory_order_release);
    return device;
}

Device set_default_device(std::string_view name, int index, const DeviceOptions& options) {
    return set_default_device(device(name, index, options));
}

std::vector<Device> devices() {
    std::vector<Device> result;
    for (const BackendEntry& entry : backend_entries()) {
        if (!entry.create) continue;
        try {
            for (int index = 0;; ++index) result.push_back(plain_device(entry, index));
        } catch (const Error& error) {
            if (error.kind() != ErrorKind::runtime) throw;
        }
    }
    return result;
}

void synchronize() {
    for (const Device& device : devices_in_use()) device.synchronize();
    gpu::synchronize_queues();
}

std::vector<BackendStatus> backend_status() {
    std::vector<BackendStatus> result;
    for (const BackendEntry& entry : backend_entries()) {
        result.push_back(entry.status ? entry.status()
                                      : BackendStatus{std::string(entry.name), "not built",
                                                      "not part of this build of Tack"});
    }
    return result;
}

}  // namespace tack

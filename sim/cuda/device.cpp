// Initialisation, devices, errors and the lookup of entry points.
#include <cctype>
#include <cstdio>
#include <cstring>

#include "cuda/driver.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace tack_sim::cuda {

std::string live_objects();

namespace {

struct ErrorName {
    int number;
    const char* name;
};

constexpr ErrorName error_names[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {205, "CUDA_ERROR_MAP_FAILED"},
    {206, "CUDA_ERROR_UNMAP_FAILED"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {218, "CUDA_ERROR_INVALID_PTX"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {300, "CUDA_ERROR_INVALID_SOURCE"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {401, "CUDA_ERROR_ILLEGAL_STATE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {710, "CUDA_ERROR_ASSERT"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {800, "CUDA_ERROR_NOT_PERMITTED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

const char* name_of_error(int error) {
    for (const ErrorName& row : error_names) {
        if (row.number == error) return row.name;
    }
    return nullptr;
}

// "CUDA_ERROR_INVALID_VALUE" says "invalid value".
const char* text_of_error(int error) {
    static const auto* texts = [] {
        auto* map = new std::map<int, std::string>;
        for (const ErrorName& row : error_names) {
            std::string text = row.number ? row.name + std::strlen("CUDA_ERROR_") : "no error";
            for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(std::tolower(c));
            map->emplace(row.number, text);
        }
        return map;
    }();
    auto found = texts->find(error);
    return found == texts->end() ? nullptr : found->second.c_str();
}

int architecture() { return static_cast<int>(environment_number("TACK_SIM_ARCH", 90)); }

int attribute(int number, int ordinal) {
    switch (number) {
        case 1:
            return 1024;  // threads of a block
        case 2:
        case 3:
            return 1024;  // block x, y
        case 4:
            return 64;  // block z
        case 5:
            return 0x7fffffff;  // grid x
        case 6:
        case 7:
            return 65535;  // grid y, z
        case 8:
            return 48 << 10;  // shared memory of a block
        case 9:
            return 64 << 10;  // constant memory
        case 10:
            return 32;  // warp
        case 11:
            return 0x7fffffff;  // pitch
        case 12:
            return 65536;  // registers of a block
        case 13:
            return 1500000;  // clock, kHz
        case 14:
            return 512;  // texture alignment
        case 15:
            return 1;  // copies overlap kernels
        case 16:
            return 4;  // multiprocessors
        case 19:
            return 1;  // maps host memory
        case 31:
            return 1;  // concurrent kernels
        case 33:
            return ordinal + 1;  // PCI bus
        case 36:
            return 2000000;  // memory clock, kHz
        case 37:
            return 5120;  // memory bus, bits
        case 38:
            return 32 << 20;  // L2 cache
        case 39:
            return 2048;  // threads of a multiprocessor
        case 40:
            return 2;  // copy engines
        case 41:
            return 1;  // unified addressing
        case 75:
            return architecture() / 10;
        case 76:
            return architecture() % 10;
        case 78:
            return 1;  // stream priorities
        case 79:
        case 80:
            return 1;  // L1 cache
        case 81:
            return 228 << 10;  // shared memory of a multiprocessor
        case 82:
            return 65536;  // registers of a multiprocessor
        case 83:
            return 1;  // managed memory
        case 89:
            return concurrent_managed();
        case 90:
            return 1;  // compute preemption
        case 91:
            return 1;  // registered memory has the host's address
        case 95:
            return 0;  // cooperative launch
        case 97:
            return 227 << 10;  // shared memory of a block, on request
        case 99:
            return 1;  // registers host memory
        case 102:
            return vmm_supported();
        case 103:
            return vmm_supported();  // memory as a file descriptor
        case 106:
            return 32;  // blocks of a multiprocessor
        case 111:
            return 1 << 10;  // shared memory kept by the driver
        case 115:
            return pools_supported();
        default:
            return 0;
    }
}

// Version 5 of RFC 4122 would hash a name; this one only looks like it.
void uuid_of(int ordinal, bool of_instance, unsigned char* out) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<unsigned char>(0x10 * (i + 1) + i);
    out[6] = 0x50;
    out[8] = 0x80;
    out[14] = of_instance ? 0x4d : 0x47;
    out[15] = static_cast<unsigned char>(ordinal + 1);
}

int get_uuid(Entry& entry, bool second_version, unsigned char* out, int ordinal) {
    return enter(entry, true, [&](Held&) -> int {
        if (!out) return invalid_value;
        if (!device_at(ordinal)) return invalid_device;
        bool of_instance = second_version && environment_number("TACK_SIM_MIG", 0);
        uuid_of(ordinal, of_instance, out);
        return success;
    });
}

// The newest that both the caller and the driver know. `known`: the name exists at all.
Entry* look_up(const char* symbol, int version, bool& known) {
    Entry* best = nullptr;
    known = false;
    for (Entry* entry = first_entry(); entry; entry = entry->next) {
        if (std::strcmp(entry->base, symbol)) continue;
        if (environment_lists("TACK_SIM_MISSING", entry->base)) continue;
        if (environment_lists("TACK_SIM_MISSING", entry->name)) continue;
        known = true;
        if (entry->version > version || entry->version > driver_version()) continue;
        if (!best || entry->version > best->version) best = entry;
    }
    return best;
}

int get_proc_address(Entry& entry, const char* symbol, void** out, int version, uint64_t flags,
                     int* symbol_status) {
    if (int error = entry.count()) return error;
    enum { found = 0, name_unknown = 1, version_not_sufficient = 2 };
    if (!symbol || !out || flags > 2) return invalid_value;
    constexpr uint64_t per_thread_default_stream = 2;
    if (flags == per_thread_default_stream) return not_supported;
    bool known;
    Entry* best = look_up(symbol, version, known);
    *out = best ? best->address : nullptr;
    if (symbol_status) {
        *symbol_status = best ? found : known ? version_not_sufficient : name_unknown;
    }
    return best ? success : not_found;
}

std::string locked_leaks() {
    Held held = Queue::instance().lock();
    return live_objects();
}

}  // namespace
}  // namespace tack_sim::cuda

TACK_SIM_ENTRY(cuInit, "cuInit", 2000, unsigned flags) {
    return enter(cuInit_entry, false, [&](Held&) -> int {
        if (flags) return invalid_value;
        uint64_t count = environment_number("TACK_SIM_DEVICES", 1);
        if (!count) return no_device;
        if (state().initialized) return success;
        for (uint64_t i = 0; i < count; ++i) {
            auto device = std::make_unique<Device>();
            device->ordinal = static_cast<int>(i);
            device->capacity = environment_number("TACK_SIM_MEMORY", uint64_t{16} << 30);
            auto pool = std::make_shared<Pool>();
            pool->device = device.get();
            pool->built_in = true;
            state().handles.add(pool);
            device->default_pool = device->pool = pool.get();
            state().devices.push_back(std::move(device));
        }
        if (!concurrent_managed()) Queue::instance().set_managed_exclusive();
        set_leak_lister(locked_leaks);
        state().initialized = true;
        return success;
    });
}

TACK_SIM_ENTRY(cuDriverGetVersion, "cuDriverGetVersion", 2020, int* version) {
    if (int error = cuDriverGetVersion_entry.count()) return error;
    if (!version) return invalid_value;
    *version = driver_version();
    return success;
}

TACK_SIM_ENTRY(cuGetErrorName, "cuGetErrorName", 6000, int error, const char** out) {
    if (int failure = cuGetErrorName_entry.count()) return failure;
    if (!out) return invalid_value;
    *out = name_of_error(error);
    return *out ? success : invalid_value;
}

TACK_SIM_ENTRY(cuGetErrorString, "cuGetErrorString", 6000, int error, const char** out) {
    if (int failure = cuGetErrorString_entry.count()) return failure;
    if (!out) return invalid_value;
    *out = text_of_error(error);
    return *out ? success : invalid_value;
}

TACK_SIM_ENTRY(cuGetProcAddress, "cuGetProcAddress", 11030, const char* symbol, void** out,
               int version, uint64_t flags) {
    return get_proc_address(cuGetProcAddress_entry, symbol, out, version, flags, nullptr);
}

TACK_SIM_ENTRY(cuGetProcAddress_v2, "cuGetProcAddress", 12000, const char* symbol, void** out,
               int version, uint64_t flags, int* symbol_status) {
    return get_proc_address(cuGetProcAddress_v2_entry, symbol, out, version, flags, symbol_status);
}

// NVIDIA's own libraries ask for tables here while they load, and take this answer.
TACK_SIM_ENTRY(cuGetExportTable, "cuGetExportTable", 3000, const void** table, const void* id) {
    if (int error = cuGetExportTable_entry.count()) return error;
    if (!table || !id) return invalid_value;
    *table = nullptr;
    return not_found;
}

TACK_SIM_ENTRY(cuDeviceGetCount, "cuDeviceGetCount", 2000, int* count) {
    return enter(cuDeviceGetCount_entry, true, [&](Held&) -> int {
        if (!count) return invalid_value;
        *count = static_cast<int>(state().devices.size());
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGet, "cuDeviceGet", 2000, int* device, int ordinal) {
    return enter(cuDeviceGet_entry, true, [&](Held&) -> int {
        if (!device) return invalid_value;
        if (!device_at(ordinal)) return invalid_device;
        *device = ordinal;
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetName, "cuDeviceGetName", 2000, char* name, int length, int device) {
    return enter(cuDeviceGetName_entry, true, [&](Held&) -> int {
        if (!name || length <= 0) return invalid_value;
        if (!device_at(device)) return invalid_device;
        snprintf(name, static_cast<size_t>(length), "Tack Simulated GPU %d", device);
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, unsigned char* uuid, int device) {
    return get_uuid(cuDeviceGetUuid_entry, false, uuid, device);
}

TACK_SIM_ENTRY(cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, unsigned char* uuid, int device) {
    return get_uuid(cuDeviceGetUuid_v2_entry, true, uuid, device);
}

TACK_SIM_ENTRY(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, size_t* bytes, int ordinal) {
    return enter(cuDeviceTotalMem_v2_entry, true, [&](Held&) -> int {
        if (!bytes) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        *bytes = device->capacity;
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, int* value, int number,
               int device) {
    return enter(cuDeviceGetAttribute_entry, true, [&](Held&) -> int {
        if (!value || number <= 0 || number > 1000) return invalid_value;
        if (!device_at(device)) return invalid_device;
        *value = attribute(number, device);
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, char* id, int length, int device) {
    return enter(cuDeviceGetPCIBusId_entry, true, [&](Held&) -> int {
        if (!id || length < 13) return invalid_value;
        if (!device_at(device)) return invalid_device;
        snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", device + 1);
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000, int* can, int device,
               int peer) {
    return enter(cuDeviceCanAccessPeer_entry, true, [&](Held&) -> int {
        if (!can) return invalid_value;
        if (!device_at(device) || !device_at(peer)) return invalid_device;
        *can = 0;
        return success;
    });
}

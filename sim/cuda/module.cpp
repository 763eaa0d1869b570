// Modules, libraries, functions and launches.
#include <cctype>
#include <charconv>
#include <cstring>

#include "cuda/memory.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace tack_sim::cuda {
namespace {

Result result_of(ImageError error) {
    switch (error) {
        case ImageError::none:
            return success;
        case ImageError::not_an_image:
            return invalid_image;
        case ImageError::foreign:
            return no_binary_for_gpu;
    }
    return unknown_error;
}

// The image that what stands for PTX holds; of anything else nothing.
std::vector<char> image_in_ptx(const void* data) {
    constexpr size_t start = sizeof TACK_SIM_PTX - 1;
    auto* text = static_cast<const char*>(data);
    if (std::strncmp(text, TACK_SIM_PTX, start)) return {};
    std::vector<char> bytes;
    for (text += start; std::isxdigit(text[0]) && std::isxdigit(text[1]); text += 2) {
        unsigned char byte = 0;
        std::from_chars(text, text + 2, byte, 16);
        bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
}

std::shared_ptr<Image> load_image(const void* data, Result& error) {
    const std::vector<char> in_ptx = image_in_ptx(data);
    ImageError what;
    std::shared_ptr<Image> image = Image::load(in_ptx.empty() ? data : in_ptx.data(), what);
    error = result_of(what);
    if (!image || !image->architecture()) return image;
    const uint64_t device = environment_number("TACK_SIM_ARCH", 90);
    const bool same_major = image->architecture() / 10 == device / 10;
    if (image->architecture() > device || (in_ptx.empty() && !same_major)) {
        error = no_binary_for_gpu;
        return nullptr;
    }
    return image;
}

Module* make_module(Context& context, std::shared_ptr<Image> image) {
    auto module = std::make_shared<Module>();
    module->context = &context;
    for (const tack_sim_symbol* symbol = image->symbols(); symbol && symbol->name; ++symbol) {
        module->globals.push_back(Memory::instance().note(address_of(symbol->address), symbol->size,
                                                          RangeKind::global,
                                                          context.device->ordinal, &context));
    }
    module->image = std::move(image);
    state().handles.add(module);
    return module.get();
}

// Commands that were queued keep the image; the handles are gone.
void unload(Module& module) {
    module.alive = false;
    for (auto& [name, function] : module.functions) {
        function->alive = false;
        function->died_with_context = false;
    }
    for (const RangeRef& range : module.globals) Memory::instance().release(range);
    module.globals.clear();
    module.image = nullptr;
}

int load_module(Entry& entry, void** out, const void* data) {
    return enter_context(entry, [&](Held&, Context& context) -> int {
        if (!out || !data) return invalid_value;
        Result error = success;
        std::shared_ptr<Image> image = load_image(data, error);
        if (!image) return error;
        *out = make_module(context, std::move(image))->handle;
        return success;
    });
}

Function* function_named(Module& module, const char* name) {
    const tack_sim_kernel* kernel = module.image->kernel(name);
    if (!kernel) return nullptr;
    Function*& function = module.functions[name];
    if (!function) {
        auto fresh = std::make_shared<Function>();
        fresh->module = &module;
        fresh->kernel = kernel;
        state().handles.add(fresh);
        function = fresh.get();
    }
    return function;
}

Function* function_of(Kernel& kernel, Context& context, Result& error) {
    Library& library = *kernel.library;
    Module*& module = library.modules[&context];
    if (!module || !module->alive) {
        std::shared_ptr<Image> image = load_image(library.bytes.data(), error);
        if (!image) return nullptr;
        module = make_module(context, std::move(image));
        module->of_library = true;
    }
    return function_named(*module, kernel.name.c_str());
}

// A CUfunction, or a CUkernel in its place, as launches take both.
Function* launchable(const char* call, void* handle, Context* context, Result& error) {
    Object* object = handle ? state().handles.find(handle) : nullptr;
    if (object && object->kind == kernel_kind && context) {
        auto* kernel = checked<Kernel>(call, handle, error);
        return kernel ? function_of(*kernel, *context, error) : nullptr;
    }
    return checked<Function>(call, handle, error);
}

struct Dimensions {
    unsigned grid[3], block[3], shared;
};

Result check_dimensions(const Dimensions& d, const Function& function) {
    for (int i = 0; i < 3; ++i) {
        if (!d.grid[i] || !d.block[i]) return invalid_value;
    }
    bool grid_fits = d.grid[0] <= 0x7fffffff && d.grid[1] <= 65535 && d.grid[2] <= 65535;
    uint64_t threads = uint64_t{d.block[0]} * d.block[1] * d.block[2];
    bool block_fits =
        d.block[0] <= 1024 && d.block[1] <= 1024 && d.block[2] <= 64 && threads <= 1024;
    bool shared_fits = d.shared <= static_cast<unsigned>(function.dynamic_shared_limit);
    return grid_fits && block_fits && shared_fits ? success : invalid_value;
}

// The argument values of one launch.
struct Arguments {
    std::vector<std::vector<uint64_t>> values;  // 8 bytes each, of which the last may be padding
    std::vector<void*> pointers;

    void add(const void* from, uint32_t size) {
        // Aligned to 16 by operator new.
        values.emplace_back((size + 15) / 16 * 2);
        std::memcpy(values.back().data(), from, size);
        pointers.push_back(values.back().data());
    }
};

Result take_arguments(const tack_sim_kernel& kernel, void** parameters, void** extra,
                      Arguments& arguments) {
    const char* packed = nullptr;
    size_t packed_size = 0;
    if (extra) {
        if (parameters) return invalid_value;
        constexpr uintptr_t end = 0, buffer = 1, buffer_size = 2;
        for (void** item = extra; reinterpret_cast<uintptr_t>(*item) != end; item += 2) {
            auto key = reinterpret_cast<uintptr_t>(*item);
            if (key == buffer)
                packed = static_cast<const char*>(item[1]);
            else if (key == buffer_size)
                packed_size = *static_cast<size_t*>(item[1]);
            else
                return invalid_value;
        }
    }
    if (!packed && !parameters) return kernel.parameter_count ? invalid_value : success;
    size_t offset = 0;
    for (uint32_t i = 0; i < kernel.parameter_count; ++i) {
        uint32_t size = kernel.parameter_sizes[i];
        if (!packed) {
            if (!parameters[i]) return invalid_value;
            arguments.add(parameters[i], size);
            continue;
        }
        // Of a structure only its size is known; 8 is what those in use are aligned to.
        size_t alignment = size & (size - 1) ? 8 : std::min<size_t>(size, 16);
        offset = (offset + alignment - 1) / alignment * alignment;
        if (offset + size > packed_size) return invalid_value;
        arguments.add(packed + offset, size);
        offset += size;
    }
    return success;
}

// What the arguments point to. `stray`: the number of an argument that is an address of the host's.
std::vector<RangeRef> ranges_of(const tack_sim_kernel& kernel, const Arguments& arguments,
                                int& stray) {
    std::vector<RangeRef> uses;
    stray = -1;
    for (uint32_t i = 0; i < kernel.parameter_count; ++i) {
        uint32_t size = kernel.parameter_sizes[i];
        for (uint32_t word = 0; word < size / 8; ++word) {
            uint64_t value = arguments.values[i][word];
            if (RangeRef range = Memory::instance().find(value)) {
                uses.push_back(range);
            } else if (size == 8 && value >> 32 && host_can_read(reinterpret_cast<void*>(value))) {
                stray = static_cast<int>(i);
            }
        }
    }
    return uses;
}

void run_kernel(const tack_sim_kernel& kernel, const Arguments& arguments, const Dimensions& d) {
    tack_sim_launch launch{};
    std::copy(d.grid, d.grid + 3, launch.grid);
    std::copy(d.block, d.block + 3, launch.block);
    launch.dynamic_shared_bytes = d.shared;
    launch.fail = [](const char* text) { Queue::fail_command(text); };
    RangeRef shared;
    if (d.shared) {
        shared = Memory::instance().allocate(d.shared, RangeKind::pinned, 0, nullptr);
        if (!shared) Queue::fail_command("no memory for the block's shared memory");
        shared->freed = true;  // not the client's
        launch.dynamic_shared = pointer(shared->base);
    }
    kernel.invoke(arguments.pointers.data(), &launch);
    if (shared) Memory::instance().release(shared);
}

int launch(Entry& entry, void* handle, const Dimensions& d, void* stream_handle, void** parameters,
           void** extra) {
    return enter_context(entry, [&](Held&, Context& context) -> int {
        Result error = success;
        Stream* stream = stream_of(entry.base, stream_handle, error);
        if (!stream) return error;
        Function* function = launchable(entry.base, handle, &context, error);
        if (!function) return error ? error : not_found;
        if (stream->context != &context || function->module->context != &context) {
            violation(std::string(entry.base) + ": " + name_of(*stream) + " or " +
                      name_of(*function) + " is of another context than the current one");
            return invalid_handle;
        }
        if (Result bad = check_dimensions(d, *function)) return bad;
        auto arguments = std::make_shared<Arguments>();
        const tack_sim_kernel& kernel = *function->kernel;
        if (Result bad = take_arguments(kernel, parameters, extra, *arguments)) return bad;
        int stray = -1;
        std::vector<RangeRef> uses = ranges_of(kernel, *arguments, stray);
        std::string name = std::string("kernel ") + kernel.name;
        std::function<void()> work = [image = function->module->image, &kernel, arguments, d] {
            run_kernel(kernel, *arguments, d);
        };
        if (stray >= 0) {
            // Here the kernel could read it; on a device it faults.
            work = [stray] {
                // No string, which the jump out of here would leave behind.
                char text[64];
                snprintf(text, sizeof text, "argument %d is pageable host memory", stray);
                Queue::fail_command(text, true);
            };
        }
        enqueue(*stream, std::move(name), std::move(work), std::move(uses));
        return success;
    });
}

struct LaunchConfiguration {  // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    void* stream;
    const void* attributes;
    unsigned attribute_count;
};
static_assert(sizeof(LaunchConfiguration) == 56);

int function_attribute(const Function& function, int attribute, int& value) {
    switch (attribute) {
        case 0:
            value = 1024;
            return success;  // threads of a block
        case 1:
            value = static_cast<int>(function.kernel->static_shared_bytes);
            return success;
        case 2:
        case 3:
            value = 0;
            return success;  // constant and local memory
        case 4:
            value = 32;
            return success;  // registers
        case 5:
        case 6:  // PTX and binary version
            value = static_cast<int>(environment_number("TACK_SIM_ARCH", 90));
            return success;
        case 7:
            value = 0;
            return success;  // caching
        case 8:
            value = function.dynamic_shared_limit;
            return success;
        case 9:
            value = -1;
            return success;  // shared memory carveout
        default:
            return invalid_value;
    }
}

template <typename Body>
int enter_function(Entry& entry, void* handle, Body&& body) {
    return enter_context(entry, [&](Held&, Context& context) -> int {
        Result error = success;
        Function* function = launchable(entry.base, handle, &context, error);
        return function ? body(*function) : error ? error : not_found;
    });
}

}  // namespace
}  // namespace tack_sim::cuda

TACK_SIM_ENTRY(cuModuleLoadData, "cuModuleLoadData", 2000, void** out, const void* image) {
    return load_module(cuModuleLoadData_entry, out, image);
}

TACK_SIM_ENTRY(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, void** out, const void* image,
               unsigned, int*, void**) {
    return load_module(cuModuleLoadDataEx_entry, out, image);
}

TACK_SIM_ENTRY(cuModuleUnload, "cuModuleUnload", 2000, void* handle) {
    return enter_context(cuModuleUnload_entry, [&](Held&, Context& context) -> int {
        Result error = success;
        Module* module = checked<Module>("cuModuleUnload", handle, error);
        if (!module) return error;
        if (module->of_library) return invalid_handle;
        if (module->context != &context) {
            violation("cuModuleUnload: " + name_of(*module) + " is of another context");
            return invalid_handle;
        }
        unload(*module);
        return success;
    });
}

TACK_SIM_ENTRY(cuModuleGetFunction, "cuModuleGetFunction", 2000, void** out, void* handle,
               const char* name) {
    return enter_context(cuModuleGetFunction_entry, [&](Held&, Context&) -> int {
        Result error = success;
        Module* module = checked<Module>("cuModuleGetFunction", handle, error);
        if (!module) return error;
        if (!out || !name) return invalid_value;
        Function* function = function_named(*module, name);
        if (!function) return not_found;
        *out = function->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3020, Address* address, size_t* bytes,
               void* handle, const char* name) {
    return enter_context(cuModuleGetGlobal_v2_entry, [&](Held&, Context&) -> int {
        Result error = success;
        Module* module = checked<Module>("cuModuleGetGlobal", handle, error);
        if (!module) return error;
        if (!name) return invalid_value;
        const tack_sim_symbol* symbol = module->image->symbol(name);
        if (!symbol) return not_found;
        if (address) *address = address_of(symbol->address);
        if (bytes) *bytes = symbol->size;
        return success;
    });
}

TACK_SIM_ENTRY(cuLibraryLoadData, "cuLibraryLoadData", 12000, void** out, const void* code, int*,
               void**, unsigned, int*, void**, unsigned) {
    return enter(cuLibraryLoadData_entry, true, [&](Held&) -> int {
        if (!out || !code) return invalid_value;
        Result error = success;
        auto library = std::make_shared<Library>();
        library->image = load_image(code, error);
        if (!library->image) return error;
        const auto* text = static_cast<const char*>(code);
        const bool is_ptx = !image_in_ptx(code).empty();
        library->bytes.assign(text, is_ptx ? std::strlen(text) + 1 : Image::size(code));
        *out = state().handles.add(library);
        return success;
    });
}

TACK_SIM_ENTRY(cuLibraryUnload, "cuLibraryUnload", 12000, void* handle) {
    return enter(cuLibraryUnload_entry, true, [&](Held&) -> int {
        Result error = success;
        Library* library = checked<Library>("cuLibraryUnload", handle, error);
        if (!library) return error;
        library->alive = false;
        for (auto& [name, kernel] : library->kernels) state().handles.find(kernel)->alive = false;
        for (auto& [context, module] : library->modules) {
            if (module->alive) unload(*module);
        }
        library->image = nullptr;
        library->bytes.clear();
        return success;
    });
}

TACK_SIM_ENTRY(cuLibraryGetKernel, "cuLibraryGetKernel", 12000, void** out, void* handle,
               const char* name) {
    return enter(cuLibraryGetKernel_entry, true, [&](Held&) -> int {
        Result error = success;
        Library* library = checked<Library>("cuLibraryGetKernel", handle, error);
        if (!library) return error;
        if (!out || !name) return invalid_value;
        if (!library->image->kernel(name)) return not_found;
        void*& known = library->kernels[name];
        if (!known) {
            auto kernel = std::make_shared<Kernel>();
            kernel->library = library;
            kernel->name = name;
            known = state().handles.add(kernel);
        }
        *out = known;
        return success;
    });
}

TACK_SIM_ENTRY(cuKernelGetFunction, "cuKernelGetFunction", 12000, void** out, void* handle) {
    return enter_context(cuKernelGetFunction_entry, [&](Held&, Context& context) -> int {
        Result error = success;
        Kernel* kernel = checked<Kernel>("cuKernelGetFunction", handle, error);
        if (!kernel) return error;
        if (!out) return invalid_value;
        Function* function = function_of(*kernel, context, error);
        if (!function) return error;
        *out = function->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuFuncGetAttribute, "cuFuncGetAttribute", 2020, int* value, int attribute,
               void* handle) {
    return enter_function(cuFuncGetAttribute_entry, handle, [&](Function& function) -> int {
        return value ? function_attribute(function, attribute, *value) : invalid_value;
    });
}

TACK_SIM_ENTRY(cuFuncSetAttribute, "cuFuncSetAttribute", 9000, void* handle, int attribute,
               int value) {
    return enter_function(cuFuncSetAttribute_entry, handle, [&](Function& function) -> int {
        constexpr int dynamic_shared = 8, carveout = 9, most = 227 << 10;
        if (attribute == carveout) return success;
        if (attribute != dynamic_shared || value < 0 || value > most) return invalid_value;
        function.dynamic_shared_limit = value;
        return success;
    });
}

TACK_SIM_ENTRY(cuKernelGetAttribute, "cuKernelGetAttribute", 12000, int* value, int attribute,
               void* handle, int) {
    return enter_function(cuKernelGetAttribute_entry, handle, [&](Function& function) -> int {
        return value ? function_attribute(function, attribute, *value) : invalid_value;
    });
}

TACK_SIM_ENTRY(cuFuncGetModule, "cuFuncGetModule", 11000, void** out, void* handle) {
    return enter_function(cuFuncGetModule_entry, handle, [&](Function& function) -> int {
        if (!out) return invalid_value;
        *out = function.module->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuLaunchKernel, "cuLaunchKernel", 4000, void* function, unsigned grid_x,
               unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
               unsigned block_z, unsigned shared, void* stream, void** parameters, void** extra) {
    Dimensions d{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    return launch(cuLaunchKernel_entry, function, d, stream, parameters, extra);
}

TACK_SIM_ENTRY(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, const LaunchConfiguration* c,
               void* function, void** parameters, void** extra) {
    if (!c) return enter(cuLaunchKernelEx_entry, true, [](Held&) { return invalid_value; });
    Dimensions d{
        {c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared};
    return launch(cuLaunchKernelEx_entry, function, d, c->stream, parameters, extra);
}

TACK_SIM_ENTRY(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, void* stream_handle,
               void (*function)(void*), void* data) {
    return enter(cuLaunchHostFunc_entry, true, [&](Held&) -> int {
        Result error = success;
        Stream* stream = stream_of("cuLaunchHostFunc", stream_handle, error);
        if (!stream) return error;
        if (!function) return invalid_value;
        enqueue(*stream, "cuLaunchHostFunc", [function, data] { function(data); }, {})->host = true;
        return success;
    });
}

TACK_SIM_ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor,
               "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, int* blocks, void* handle,
               int block_size, size_t) {
    return enter_function(cuOccupancyMaxActiveBlocksPerMultiprocessor_entry, handle,
                          [&](Function&) -> int {
                              if (!blocks || block_size <= 0) return invalid_value;
                              *blocks = block_size > 1024 ? 0 : std::min(32, 2048 / block_size);
                              return success;
                          });
}

TACK_SIM_ENTRY(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize", 6050,
               int* grid_size, int* block_size, void* handle, size_t (*)(int), size_t, int limit) {
    return enter_function(cuOccupancyMaxPotentialBlockSize_entry, handle, [&](Function&) -> int {
        if (!grid_size || !block_size) return invalid_value;
        *block_size = limit > 0 ? std::min(limit, 1024) : 1024;
        *grid_size = 4 * (2048 / *block_size);
        return success;
    });
}

// cuIpc shares memory in a way that this driver, like those on some systems, does not offer.
TACK_SIM_ENTRY(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, void*, Address) {
    return enter(cuIpcGetMemHandle_entry, true, [](Held&) { return not_supported; });
}

TACK_SIM_ENTRY(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, Address) {
    return enter(cuIpcCloseMemHandle_entry, true, [](Held&) { return not_supported; });
}

struct IpcHandle {  // CUipcMemHandle, CUipcEventHandle
    char bytes[64];
};

TACK_SIM_ENTRY(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, Address*, IpcHandle, unsigned) {
    return enter(cuIpcOpenMemHandle_v2_entry, true, [](Held&) { return not_supported; });
}

TACK_SIM_ENTRY(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", 4010, void**, IpcHandle) {
    return enter(cuIpcOpenEventHandle_entry, true, [](Held&) { return not_supported; });
}

TACK_SIM_ENTRY(cuIpcGetEventHandle, "cuIpcGetEventHandle", 4010, void*, void*) {
    return enter(cuIpcGetEventHandle_entry, true, [](Held&) { return not_supported; });
}

#include <algorithm>

#include "backend/cpu/backend.hpp"
#include "backend/cpu/compiler.hpp"
#include "backend/cpu/threads.hpp"
#include "codegen/c_dialect.hpp"
#include "kernel/gil.hpp"

namespace tack::cpu {

namespace {

/// Work of less than this keeps the GIL: letting it go costs up to the interpreter's switch
/// interval beside a busy thread.
constexpr double gil_nanoseconds = 5000;
/// A part of a loop should outweigh handing it to a thread.
constexpr double tile_nanoseconds = 2000;
/// Parts per thread where there is work enough, so that unequal ones even out.
constexpr std::int64_t tiles_per_thread = 16;

struct CpuExecutable final : Executable {
    detail::Ref<Module> module;
    codegen::HostKernel kernel;
};

struct CpuRuntime : codegen::Runtime {
    bool gil_held;
};

void run_parallel(const codegen::Runtime* self, codegen::Runtime::Body body, const void* frame,
                  std::int64_t total, double nanoseconds) {
    const bool gil_held = static_cast<const CpuRuntime*>(self)->gil_held;
    const kernel::GilRelease release(gil_held &&
                                     static_cast<double>(total) * nanoseconds > gil_nanoseconds);
    const auto smallest = static_cast<std::int64_t>(tile_nanoseconds / nanoseconds);
    const std::int64_t parts = tiles_per_thread * num_threads();
    parallel_for(body, frame, total,
                 std::max({smallest, (total + parts - 1) / parts, std::int64_t{1}}));
}

CompileOptions options_of(const kernel::Specialization& spec) {
    return {.fast_math = spec.options.fast_math};
}

}  // namespace

detail::Ref<Executable> CpuBackend::compile(const kernel::Specialization& spec) {
    auto executable = detail::make_ref<CpuExecutable>();
    executable->module = cpu::compile(codegen::emit_c(spec), options_of(spec));
    executable->kernel = reinterpret_cast<codegen::HostKernel>(
        executable->module->symbol(codegen::host_kernel_symbol));
    return executable;
}

void CpuBackend::launch(Executable& executable, const LaunchArguments& arguments) {
    CpuRuntime runtime{{run_parallel, large_bytes, arguments.fault}, arguments.gil_held};
    static_cast<CpuExecutable&>(executable).kernel(arguments.slots, &runtime);
}

std::string CpuBackend::source(const kernel::Specialization& spec) { return codegen::emit_c(spec); }

std::string CpuBackend::assembly(const kernel::Specialization& spec) {
    return compile_to_assembly(codegen::emit_c(spec), options_of(spec));
}

}  // namespace tack::cpu

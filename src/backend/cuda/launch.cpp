#include <algorithm>

#include "backend/cuda/backend.hpp"
#include "backend/cuda/compiler.hpp"
#include "tack/error.hpp"

namespace tack::cuda {
namespace {

/// Threads of a block: enough to fill a multiprocessor with a few blocks whatever registers the
/// kernel takes.
constexpr int block_threads = 256;
constexpr std::int64_t most_blocks = INT32_MAX;
/// Blocks per multiprocessor where the passes are not known: its full load.
constexpr std::int64_t blocks_each = 8;
/// Threads that a multiprocessor keeps, on all but a few architectures.
constexpr std::int64_t resident_threads = 2048;

struct CudaModule final : gpu::Module {
    CudaModule(OwnContext& context_, std::string name_)
        : context(&context_), name(std::move(name_)) {}
    ~CudaModule() override {
        if (!module) return;
        // The driver unloads code at once, that of queued launches too, on whichever stream.
        context->wait_for_all();
        try {
            const Current current(*context);
            context->driver.module_unload(module);
        } catch (const Error&) {
            // The context is gone, and its modules with it.
        }
    }

    const detail::Ref<OwnContext> context;
    const std::string name;  // of the kernel
    ModuleId module = nullptr;
    struct Function {
        cuda::Function handle;
        int threads;  // of a block
        int passes;   // of a thread, where there are enough; none: for one thread alone
    };
    std::vector<Function> functions;  // by entry
};

}  // namespace

void CudaBackend::launch(Executable& executable, const LaunchArguments& arguments) {
    const Current current(context);
    QueuedBackend::launch(executable, arguments);
}

codegen::GpuSource CudaBackend::emit(const kernel::Specialization& spec,
                                     codegen::IndexWidth width) const {
    return codegen::emit_cuda(spec, width);
}

detail::Ref<gpu::Module> CudaBackend::build(const codegen::GpuSource& source,
                                            const kernel::Specialization& spec) {
    const Image image = cuda::compile(source.text, traits.architecture, spec.options.fast_math);
    auto module = detail::make_ref<CudaModule>(context, spec.program->kernel.name);
    const auto doing = [&] { return "loading kernel " + module->name + " on " + device_name(); };
    const Current current(context);
    const Status loaded =
        driver.module_load(&module->module, image.bytes.c_str(), 0, nullptr, nullptr);
    if (loaded.code == unsupported_ptx_version || loaded.code == no_binary_for_gpu ||
        loaded.code == invalid_image) {
        throw Error(ErrorKind::runtime,
                    doing() + ": " + loaded.symbol + " gave " + driver.describe(loaded.code) +
                        ". The driver is for CUDA " + driver.version_text() +
                        " and does not take what " + nvrtc_description() +
                        " makes; install an NVRTC of the driver's version or older");
    }
    driver.check(loaded, doing);
    for (const codegen::GpuEntry& e : source.entries) {
        CudaModule::Function f{nullptr, block_threads, e.loop ? e.passes_each : 0};
        driver.check(driver.module_function(&f.handle, module->module, e.name.c_str()), doing);
        int most = block_threads;
        driver.check(driver.function_attribute(&most, function_max_threads, f.handle), doing);
        f.threads = std::min(block_threads, most);
        module->functions.push_back(f);
    }
    return module;
}

void CudaBackend::enqueue(gpu::Module& module_, std::size_t entry_,
                          std::optional<std::int64_t> passes, std::span<void* const> parameters) {
    const auto& module = static_cast<const CudaModule&>(module_);
    const CudaModule::Function& f = module.functions[entry_];
    const int threads = f.passes == 0 ? 1 : f.threads;
    std::int64_t blocks = traits.multiprocessors * blocks_each;
    if (passes) {
        const bool enough = *passes >= traits.multiprocessors * resident_threads * f.passes;
        const std::int64_t of_block = enough && f.passes > 1 ? threads * f.passes : threads;
        blocks = std::min((*passes + of_block - 1) / of_block, most_blocks);
    }
    check(
        driver.launch(f.handle, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads),
                      1, 1, 0, queue->stream, const_cast<void**>(parameters.data()), nullptr),
        [&] {
            return "launching " + module.name + " on " + device_name() + " with " +
                   std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads";
        });
}

void CudaBackend::synchronize() {
    const Current current(context);
    QueuedBackend::synchronize();
    reclaim(false);
}

std::string CudaBackend::assembly(const kernel::Specialization& spec) {
    return compile_to_ptx(emit(spec, codegen::IndexWidth::narrow).text, traits.architecture,
                          spec.options.fast_math);
}

}  // namespace tack::cuda

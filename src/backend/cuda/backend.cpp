#include "backend/cuda/backend.hpp"

#include <algorithm>

#include "backend/cuda/buffer.hpp"
#include "backend/cuda/compiler.hpp"
#include "tack/dlpack.hpp"
#include "tack/error.hpp"

namespace tack::cuda {
namespace {

/// Memory that Tack's pool keeps for the next arrays at each wait, of what was freed.
constexpr std::uint64_t kept_bytes = std::uint64_t{512} << 20;
/// The legacy stream is 0 or 1, the calling thread's own is 2: they are of the current context.
constexpr std::uint64_t last_special_stream = 2;

Traits traits_of(const Driver& driver, DeviceId device) {
    Traits traits;
    traits.architecture = 10 * driver.attribute(device, compute_capability_major) +
                          driver.attribute(device, compute_capability_minor);
    traits.multiprocessors = std::max(1, driver.attribute(device, multiprocessor_count));
    traits.threads_per_block = driver.attribute(device, max_threads_per_block);
    const auto all = [](auto&... entries) { return (static_cast<bool>(entries) && ...); };
    traits.pools = driver.attribute(device, memory_pools_supported) != 0 &&
                   all(driver.pool_create, driver.pool_set, driver.pool_alloc, driver.pool_free,
                       driver.pool_trim, driver.pool_destroy);
    traits.virtual_memory = driver.attribute(device, virtual_memory_management_supported) != 0 &&
                            all(driver.granularity, driver.create, driver.release, driver.reserve,
                                driver.unreserve, driver.map, driver.unmap, driver.set_access,
                                driver.export_handle, driver.import_handle);
    traits.export_type =
        export_type(this_platform, {.virtual_memory = traits.virtual_memory,
                                    .posix_fd = driver.attribute(device, posix_fd_supported) != 0,
                                    .win32_kmt = driver.attribute(device, win32_kmt_supported) != 0,
                                    .tcc = driver.attribute(device, tcc_driver) != 0});
    return traits;
}

/// The stream that the option names, checked to be one of this device's context.
Stream chosen_stream(const OwnContext& context, std::uint64_t handle) {
    const auto stream = reinterpret_cast<Stream>(handle);
    const auto doing = [&] {
        return "device: option 'stream' " + std::to_string(handle) +
               " of cuda:" + std::to_string(context.device);
    };
    if (handle > last_special_stream && context.driver.stream_context) {
        Context of = nullptr;
        context.driver.check(context.driver.stream_context(stream, &of), doing);
        if (of != context.handle) {
            throw Error(
                ErrorKind::value,
                doing() + ": the stream is of another context than the device, which is " +
                    (context.adopted ? "the one current on this thread" : "its primary context") +
                    "; make the stream's context current first");
        }
    }
    return stream;
}

detail::Ref<Backend> create(int index, const DeviceOptions& options) {
    Driver& driver = Driver::get();
    if (index >= driver.device_count()) {
        throw Error(ErrorKind::runtime, "device: cuda:" + std::to_string(index) + " of " +
                                            std::to_string(driver.device_count()) + " device" +
                                            (driver.device_count() == 1 ? "" : "s") +
                                            "; they count from 0");
    }
    DeviceId device = 0;
    driver.check(driver.device_get(&device, index),
                 [&] { return "device: cuda:" + std::to_string(index); });
    const auto context = OwnContext::of(driver, device);
    const Traits traits = traits_of(driver, device);
    const Current current(*context);
    Stream stream = nullptr;
    const auto option = options.find("stream");
    if (option != options.end()) {
        const auto* const handle = std::get_if<std::uint64_t>(&option->second);
        if (!handle) {
            throw Error(ErrorKind::type,
                        "device: option 'stream' takes a CUstream as an int, such as "
                        "torch.cuda.current_stream().cuda_stream");
        }
        stream = chosen_stream(*context, *handle);
    } else {
        driver.check(driver.stream_create(&stream, stream_default),
                     [&] { return "device: making the stream of cuda:" + std::to_string(index); });
    }
    return detail::make_ref<CudaBackend>(
        detail::make_ref<StreamQueue>(context, stream, option == options.end()), traits);
}

BackendStatus status() {
    try {
        const Driver& driver = Driver::get();
        std::string detail;
        for (int k = 0; k < driver.device_count(); ++k) detail += driver_summary(driver, k) + "\n";
        return {"cuda", "ready", detail + nvrtc_description()};
    } catch (const Error& error) {
        const std::string reason = error.what();
        const bool missing = reason.find("is not installed") != reason.npos;
        return {"cuda", missing ? "not found" : "not usable", reason};
    }
}

int find(std::span<const std::uint8_t> uuid) {
    const Driver& driver = Driver::get();
    for (int index = 0; index < driver.device_count(); ++index)
        if (std::ranges::equal(driver.uuid(index, "import_memory"), uuid)) return index;
    return -1;
}

constexpr std::string_view options[] = {"stream"};

}  // namespace

CudaBackend::CudaBackend(detail::Ref<StreamQueue> work, const Traits& traits_)
    : QueuedBackend("cuda", work->context->device, work),
      queue(std::move(work)),
      context(*queue->context),
      driver(context.driver),
      traits(traits_) {
    executable_scope = &context;
    // A pool of Tack's own, so that what it keeps is not taken for another library's.
    if (!traits.pools) return;
    PoolProps props;
    props.location.id = context.device;
    std::uint64_t keep = kept_bytes;
    if (driver.pool_create(&pool_, &props)) {
        pool_ = nullptr;
    } else {
        driver.pool_set(pool_, pool_release_threshold, &keep);
    }
}

CudaBackend::~CudaBackend() {
    try {
        const Current current(context);
        driver.stream_synchronize(queue->stream);
        reclaim(true);
        if (pool_) driver.pool_destroy(pool_);
    } catch (const Error&) {
        // The context is gone, and what was in it.
    }
}

std::uint64_t CudaBackend::stream() const noexcept {
    return reinterpret_cast<std::uintptr_t>(queue->stream);
}

void CudaBackend::wait_for_stream(std::uint64_t other) {
    const std::string doing =
        "wait_for_stream: ordering " + device_name() + " after stream " + std::to_string(other);
    const auto what = [&] { return doing; };
    const auto source = reinterpret_cast<Stream>(other);
    // An event is recorded in its stream's context, and may be waited for in any.
    Context of = context.handle;
    if (other > last_special_stream && driver.stream_context)
        driver.check(driver.stream_context(source, &of), what);
    const Current recording(driver, of);
    const Mark mark(driver, source, doing);
    const Current waiting(context);
    driver.check(driver.stream_wait(queue->stream, mark.event(), 0), what);
}

void CudaBackend::wait_for_queue(gpu::QueuedBackend& other) {
    if (other.stream() != stream()) wait_for_stream(other.stream());
}

std::int32_t CudaBackend::dlpack_device_type() const noexcept { return dlpack::cuda; }

const BackendEntry entry{"cuda", options, create, status, find};

}  // namespace tack::cuda

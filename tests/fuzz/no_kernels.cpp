// The parts of the host's backend that compile and run kernels, and the other backends, for a
// fuzzer that has none: without them a target is built in seconds.
#include "backend/cpu/backend.hpp"
#include "backend/cpu/compiler.hpp"
#include "backend/cpu/processor.hpp"
#include "backend/cuda/backend.hpp"

namespace tack::cpu {

namespace {
[[noreturn]] void refuse() { throw Error(ErrorKind::runtime, "fuzz: there are no kernels here"); }
}  // namespace

detail::Ref<Executable> CpuBackend::compile(const kernel::Specialization&) { refuse(); }
void CpuBackend::launch(Executable&, const LaunchArguments&) { refuse(); }
std::string CpuBackend::source(const kernel::Specialization&) { refuse(); }
std::string CpuBackend::assembly(const kernel::Specialization&) { refuse(); }

std::string processor_description() { return "none"; }
std::int64_t last_level_cache_bytes() { return INT64_MAX; }

}  // namespace tack::cpu

const tack::BackendEntry tack::cuda::entry{"cuda", {}, nullptr, nullptr};
void tack::gpu::synchronize_queues() {}

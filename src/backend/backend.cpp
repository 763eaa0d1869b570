#include "backend/backend.hpp"

namespace tack {

bool Backend::copy(Buffer&, const Buffer&) { return false; }

bool Backend::fill(Buffer&, std::int64_t, std::int64_t, std::uint64_t) { return false; }

BufferRef Backend::import_memory(const ExportedMemory& memory, std::int64_t) {
    throw Error(ErrorKind::runtime, "import_memory: Backend " + name +
                                        " does not import memory by handle (here a " +
                                        memory.handle_type +
                                        "); map it with the API it is from "
                                        "and wrap the address with array_from_ptr()");
}

void Backend::wait_for_stream(std::uint64_t) {}

std::string Backend::source(const kernel::Specialization&) {
    throw Error(ErrorKind::runtime, "inspect: Backend " + name + " has no source of its kernels");
}

std::string Backend::assembly(const kernel::Specialization&) {
    throw Error(ErrorKind::runtime, "inspect: Backend " + name + " has no assembly of its kernels");
}

}  // namespace tack

#include "array/buffer.hpp"

#include "backend/backend.hpp"

namespace tack {

Buffer::Buffer(Backend& backend_, void* address_, std::int64_t nbytes_)
    : address(address_), nbytes(nbytes_), backend(&backend_) {}

Buffer::~Buffer() = default;

void Buffer::share() {
    // Marked before the wait: a launch that is queued too late for it sees the mark and waits
    // itself. The wait is never left out, since another thread may be marking just now.
    if (!shared()) shared_.store(true);
    backend->synchronize();
}

ExportedMemory Buffer::export_memory() { refuse_memory_export(*backend); }

void refuse_memory_export(const Backend& backend) {
    throw Error(ErrorKind::runtime,
                "export_memory: Backend " + backend.name +
                    " does not support memory export; within this process exchange the array "
                    "through DLPack or its address");
}

}  // namespace tack

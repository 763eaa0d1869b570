/// Which faster forms a parallel loop may take besides its plain one.
#pragma once

#include <cstdint>

#include "kernel/specialization.hpp"

namespace tack::codegen {

/// A store whose elements the loop writes once each, in order, and that nobody reads: those of a
/// large array then pass by the caches.
struct StreamedStore {
    const ir::Stmt* store = nullptr;  // null where there is none
    ir::Block before;                 // what computes its index, without reading memory
};
StreamedStore streamed_store(const kernel::Specialization& spec, const ir::Stmt& loop);

/// The array parameter that the loop does nothing with but add to elements atomically, without
/// using the old values: of small ones each thread then adds to a copy of its own. -1 likewise.
std::int32_t accumulated_array(const kernel::Specialization& spec, const ir::Stmt& loop);

}  // namespace tack::codegen

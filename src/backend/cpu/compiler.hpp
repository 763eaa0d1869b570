/// From C source to code in memory: embedded Clang or the system's C compiler, and the disk cache.
#pragma once

#include <string>

#include "tack/detail/ref.hpp"

namespace tack::cpu {

/// Loaded machine code; unloaded with the last reference.
struct Module : detail::RefCounted {
    /// The address of a function that the source defines without `static`. Throws runtime.
    virtual void* symbol(const char* name) const = 0;
};

struct CompileOptions {
    bool fast_math = false;
};

/// Compiles `source` (self-contained C: it includes no header) for this processor, or loads it
/// from the disk cache. Thread-safe; two threads may compile at once.
/// Throws runtime with the compiler's diagnostics when the source is refused, or with every
/// compiler that was looked for when there is none.
detail::Ref<Module> compile(const std::string& source, const CompileOptions& options);

/// The assembly text of the same compilation. Never cached.
std::string compile_to_assembly(const std::string& source, const CompileOptions& options);

/// "Clang 22.1.8 (embedded)", or the system compiler's path and version, or why there is none.
std::string compiler_description();
/// "2 threads, x86-64 with avx512f": the widest vector extension that the features allow.
std::string processor_description();

}  // namespace tack::cpu

/// The compilers that can turn C into code for this processor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/compiler.hpp"

namespace tack::cpu {

enum class Output { object, assembly };

struct Toolchain {
    virtual ~Toolchain() = default;

    /// What its output depends on besides source, options and processor: another build of the
    /// compiler has another identity. Found without loading or running it.
    virtual std::string identity() const = 0;
    /// For people: compiler_description().
    virtual std::string description() const = 0;
    /// Throws runtime with the diagnostics where the source is refused.
    virtual std::string run(const std::string& source, const CompileOptions& options,
                            Output output) const = 0;
};

/// libtack_clang at embedded_path(), or null where there is no such file.
std::unique_ptr<Toolchain> embedded_toolchain();
/// TACK_CLANG, else libtack_clang.so beside libtack.
std::string embedded_path();

/// The compiler that TACK_CC names, else the first of cc, gcc and clang on PATH; or null.
std::unique_ptr<Toolchain> system_toolchain();

}  // namespace tack::cpu

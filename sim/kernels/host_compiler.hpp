/// Compiles kernels for the host, behind a prelude that makes C++ the device's language.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/source_scan.hpp"

namespace tack_sim {

struct HostSource {
    std::string text;
    std::string name;                  // as the log calls it
    std::vector<std::string> names;    // name expressions, such as saxpy<float>
    std::string prelude;               // path of the header that comes first
    std::vector<std::string> options;  // for the host's compiler
    unsigned architecture = 0;         // 10 * major + minor
    bool contract = false;             // a * b + c may be rounded once
    ScanRules rules;
};

struct HostImage {
    bool compiled = false;
    std::string log;                   // lines of "NAME(LINE): error: TEXT"
    std::string bytes;                 // ELF, as cuda/module_abi.h says
    std::vector<std::string> lowered;  // for each of the names
};

/// Throws std::runtime_error where the compiler or the cache's folder does not work at all.
/// The cache is $TACK_SIM_CACHE, by default a folder for each user in $TMPDIR.
HostImage compile_for_host(const HostSource& source);

/// Keeps a source that was compiled, and the options a user gave for it, in $TACK_SIM_SOURCES:
/// HASH.cu and HASH.options, one option a line. Nothing without that variable.
void collect_source(std::string_view text, const std::vector<std::string>& options);

}  // namespace tack_sim

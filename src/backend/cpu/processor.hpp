/// What the host's processor can do, as far as compiled kernels may use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tack::cpu {

/// The answers of the CPUID instruction, by register, and the register states that the operating
/// system saves (XCR0; 0 where it says nothing).
struct ProcessorBits {
    std::uint32_t leaf1_eax = 0, leaf1_ecx = 0;
    std::uint32_t leaf7_ebx = 0, leaf7_ecx = 0;
    std::uint32_t extended1_ecx = 0;
    std::uint64_t xcr0 = 0;
    std::string vendor;
};
ProcessorBits read_processor();

/// Target features over plain x86-64, by LLVM's names and without a sign: "avx2", ... The names of
/// models play no part: a feature that CPUID or XCR0 withholds takes those that build on it along.
std::vector<std::string_view> features_of(const ProcessorBits& bits);

/// Those of this processor.
const std::vector<std::string_view>& processor_features();

/// Bytes of the largest cache that the processor's cores share.
std::int64_t last_level_cache_bytes();

/// Vendor, family, model and stepping: two processors of one signature are tuned for alike.
const std::string& processor_signature();

}  // namespace tack::cpu

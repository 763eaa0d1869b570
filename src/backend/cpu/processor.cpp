#include "backend/cpu/processor.hpp"

#include <cpuid.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/compiler.hpp"
#include "tack/device.hpp"

#if !defined(__x86_64__)
#error "Tack's CPU backend generates code for x86-64 only"
#endif

namespace tack::cpu {
namespace {

std::uint64_t read_xcr0() {
    std::uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (std::uint64_t{high} << 32) | low;
}

constexpr std::uint64_t ymm_state = 0x6;   // XMM, upper halves of YMM
constexpr std::uint64_t zmm_state = 0xe6;  // and mask registers, upper halves of ZMM, ZMM16-31

using Word = std::uint32_t ProcessorBits::*;
struct Feature {
    std::string_view name;
    Word word;
    int bit;
    std::string_view needs;   // a feature listed above it, or empty
    std::uint64_t state = 0;  // register states that must be saved
};
// Left out on purpose: avx512bf16, whose conversions flush denormals to zero.
constexpr Feature known_features[] = {
    {"sse3", &ProcessorBits::leaf1_ecx, 0, ""},
    {"ssse3", &ProcessorBits::leaf1_ecx, 9, "sse3"},
    {"sse4.1", &ProcessorBits::leaf1_ecx, 19, "ssse3"},
    {"sse4.2", &ProcessorBits::leaf1_ecx, 20, "sse4.1"},
    {"popcnt", &ProcessorBits::leaf1_ecx, 23, ""},
    {"cx16", &ProcessorBits::leaf1_ecx, 13, ""},
    {"movbe", &ProcessorBits::leaf1_ecx, 22, ""},
    {"lzcnt", &ProcessorBits::extended1_ecx, 5, ""},
    {"bmi", &ProcessorBits::leaf7_ebx, 3, ""},
    {"bmi2", &ProcessorBits::leaf7_ebx, 8, ""},
    {"avx", &ProcessorBits::leaf1_ecx, 28, "sse4.2", ymm_state},
    {"f16c", &ProcessorBits::leaf1_ecx, 29, "avx"},
    {"fma", &ProcessorBits::leaf1_ecx, 12, "avx"},
    {"avx2", &ProcessorBits::leaf7_ebx, 5, "avx"},
    {"avx512f", &ProcessorBits::leaf7_ebx, 16, "avx2", zmm_state},
    {"avx512cd", &ProcessorBits::leaf7_ebx, 28, "avx512f"},
    {"avx512dq", &ProcessorBits::leaf7_ebx, 17, "avx512f"},
    {"avx512bw", &ProcessorBits::leaf7_ebx, 30, "avx512f"},
    {"avx512vl", &ProcessorBits::leaf7_ebx, 31, "avx512f"},
    {"avx512ifma", &ProcessorBits::leaf7_ebx, 21, "avx512f"},
    {"avx512vbmi", &ProcessorBits::leaf7_ecx, 1, "avx512bw"},
    {"avx512vbmi2", &ProcessorBits::leaf7_ecx, 6, "avx512bw"},
    {"avx512vnni", &ProcessorBits::leaf7_ecx, 11, "avx512f"},
    {"avx512bitalg", &ProcessorBits::leaf7_ecx, 12, "avx512bw"},
    {"avx512vpopcntdq", &ProcessorBits::leaf7_ecx, 14, "avx512f"},
};

bool contains(const std::vector<std::string_view>& features, std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
}

}  // namespace

ProcessorBits read_processor() {
    ProcessorBits bits;
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
    __get_cpuid(0, &a, &b, &c, &d);
    char vendor[12];
    std::memcpy(vendor, &b, 4);
    std::memcpy(vendor + 4, &d, 4);
    std::memcpy(vendor + 8, &c, 4);
    bits.vendor.assign(vendor, sizeof vendor);
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        bits.leaf1_eax = a;
        bits.leaf1_ecx = c;
        constexpr std::uint32_t osxsave = 1u << 27;
        if (c & osxsave) bits.xcr0 = read_xcr0();
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        bits.leaf7_ebx = b;
        bits.leaf7_ecx = c;
    }
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) bits.extended1_ecx = c;
    return bits;
}

std::vector<std::string_view> features_of(const ProcessorBits& bits) {
    std::vector<std::string_view> features;
    for (const Feature& feature : known_features) {
        const bool present = (bits.*feature.word >> feature.bit) & 1;
        const bool saved = (bits.xcr0 & feature.state) == feature.state;
        if (present && saved && (feature.needs.empty() || contains(features, feature.needs)))
            features.push_back(feature.name);
    }
    return features;
}

const std::vector<std::string_view>& processor_features() {
    static const std::vector<std::string_view> features = features_of(read_processor());
    return features;
}

std::int64_t last_level_cache_bytes() {
    // Not sysconf(): glibc multiplies what some AMD processors report by the number of their cores.
    static const std::int64_t bytes = [] {
        const bool amd = read_processor().vendor == "AuthenticAMD";
        std::int64_t largest = 0;
        std::uint32_t a = 0, b = 0, c = 0, d = 0;
        const std::uint32_t leaf = amd ? 0x8000001d : 4;
        for (std::uint32_t k = 0; __get_cpuid_count(leaf, k, &a, &b, &c, &d); ++k) {
            if ((a & 0x1f) == 0) break;  // no more caches
            const std::int64_t ways = (b >> 22) + 1, partitions = ((b >> 12) & 0x3ff) + 1;
            const std::int64_t line = (b & 0xfff) + 1, sets = std::int64_t{c} + 1;
            largest = std::max(largest, ways * partitions * line * sets);
        }
        constexpr std::int64_t usual = 32 << 20;
        return largest > 0 ? largest : usual;
    }();
    return bytes;
}

const std::string& processor_signature() {
    static const std::string signature = [] {
        const ProcessorBits bits = read_processor();
        return bits.vendor + " " + std::to_string(bits.leaf1_eax);
    }();
    return signature;
}

std::string processor_description() {
    std::string_view widest = "sse2";
    for (std::string_view name : {"avx", "avx2", "avx512f"})
        if (contains(processor_features(), name)) widest = name;
    const int threads = num_threads();
    return std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", x86-64 with " +
           std::string(widest);
}

}  // namespace tack::cpu

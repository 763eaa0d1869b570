// The entry points of a stand-in for NVRTC: what it makes runs on the simulated driver only.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/calls.hpp"
#include "cuda/module_abi.h"
#include "cuda/nvrtc/options.hpp"
#include "cuda/tack_sim.h"
#include "kernels/host_compiler.hpp"

#define NVRTC_EXPORT extern "C" __attribute__((visibility("default")))

// An entry point of NVRTC, whose calls are counted and may be made to fail.
#define NVRTC_ENTRY(name, ...)                                     \
    static tack_sim::Entry name##_entry(#name, #name, 0, nullptr); \
    NVRTC_EXPORT int name(__VA_ARGS__)
#define NVRTC_COUNT(name) \
    if (const int failed = name##_entry.count()) return failed

namespace {

enum Result {
    success = 0,
    invalid_input = 3,
    invalid_program = 4,
    invalid_option = 5,
    compilation = 6,
    no_names_after_compilation = 8,
    no_lowered_names_before_compilation = 9,
    name_not_valid = 10,
    internal_error = 11,
};

struct Program {
    std::string source, name, log, ptx;
    std::vector<std::string> names;
    tack_sim::HostImage image;
    bool was_compiled = false;  // or tried
    bool has_cubin = false;
};

std::mutex mutex;
// Never destroyed: a client may still compile while the process ends.
std::set<Program*>& programs = *new std::set<Program*>;

bool exists(Program* program) {
    const std::lock_guard lock(mutex);
    return programs.count(program) > 0;
}

const std::vector<std::string_view> known_builtins = {
    "__builtin_FILE",         "__builtin_LINE",       "__builtin_add_overflow",
    "__builtin_addressof",    "__builtin_assume",     "__builtin_assume_aligned",
    "__builtin_bit_cast",     "__builtin_constant_p", "__builtin_copysign",
    "__builtin_copysignf",    "__builtin_expect",     "__builtin_is_constant_evaluated",
    "__builtin_isfinite",     "__builtin_isinf",      "__builtin_isnan",
    "__builtin_mul_overflow", "__builtin_offsetof",   "__builtin_sub_overflow",
    "__builtin_unreachable",
};

std::string hexadecimal(const std::string& bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (const char byte : bytes) {
        text += digits[(byte >> 4) & 15];
        text += digits[byte & 15];
    }
    return text;
}

int compile(Program& program, const std::vector<std::string>& given) {
    const tack_sim::nvrtc::Options options = tack_sim::nvrtc::parse_options(given);
    program.was_compiled = true;
    program.image = {};
    program.ptx.clear();
    program.has_cubin = false;
    if (!options.error.empty()) {
        program.log = "nvrtc: error: " + options.error + "\n";
        return invalid_option;
    }
    const std::string architecture = std::to_string(options.architecture);
    tack_sim::HostSource source;
    source.text = program.source;
    source.name = program.name;
    source.names = program.names;
    source.prelude = TACK_SIM_FOLDER "/cuda/nvrtc/cuda.h";
    source.options = options.host;
    source.options.push_back("-std=c++" + options.standard);
    source.options.push_back("-D__CUDA_ARCH__=" + architecture + "0");
    source.architecture = static_cast<unsigned>(options.architecture);
    source.contract = options.fmad;
    source.rules = {options.device_by_default, options.int128, known_builtins};
    program.image = tack_sim::compile_for_host(source);
    program.log = program.image.log;
    if (!program.image.compiled) return compilation;
    tack_sim::collect_source(program.source, given);
    program.has_cubin = options.makes_cubin;
    program.ptx = TACK_SIM_PTX + hexadecimal(program.image.bytes) + "\n.version 9.5\n.target sm_" +
                  architecture + "\n";
    return success;
}

/// The size of a text with its end, or the text.
int give_text(Program* program, const std::string Program::* text, size_t* size, char* out) {
    if (!exists(program)) return invalid_program;
    if (!size && !out) return invalid_input;
    const std::string& value = program->*text;
    if (size) *size = value.size() + 1;
    if (out) std::memcpy(out, value.c_str(), value.size() + 1);
    return success;
}

/// As much of a text with its end as fits; gives the bytes that it needs.
size_t fill(const std::string& text, char* buffer, size_t size) {
    if (size > 0) {
        const size_t n = std::min(text.size(), size - 1);
        std::memcpy(buffer, text.data(), n);
        buffer[n] = 0;
    }
    return text.size() + 1;
}

[[maybe_unused]] const bool failures_are_set =
    tack_sim::set_failures(std::getenv("TACK_SIM_FAIL"), internal_error);

}  // namespace

NVRTC_EXPORT const char* nvrtcGetErrorString(int result) {
    static const char* const names[] = {
        "NVRTC_SUCCESS",
        "NVRTC_ERROR_OUT_OF_MEMORY",
        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
        "NVRTC_ERROR_INVALID_INPUT",
        "NVRTC_ERROR_INVALID_PROGRAM",
        "NVRTC_ERROR_INVALID_OPTION",
        "NVRTC_ERROR_COMPILATION",
        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        "NVRTC_ERROR_INTERNAL_ERROR",
    };
    const bool known = result >= 0 && result < static_cast<int>(std::size(names));
    return known ? names[result] : "NVRTC_ERROR unknown";
}

NVRTC_ENTRY(nvrtcVersion, int* major, int* minor) {
    NVRTC_COUNT(nvrtcVersion);
    if (!major || !minor) return invalid_input;
    *major = 13;
    *minor = 5;
    return success;
}

NVRTC_ENTRY(nvrtcGetNumSupportedArchs, int* count) {
    NVRTC_COUNT(nvrtcGetNumSupportedArchs);
    if (!count) return invalid_input;
    *count = static_cast<int>(tack_sim::nvrtc::supported_architectures().size());
    return success;
}

NVRTC_ENTRY(nvrtcGetSupportedArchs, int* architectures) {
    NVRTC_COUNT(nvrtcGetSupportedArchs);
    if (!architectures) return invalid_input;
    const std::vector<int>& all = tack_sim::nvrtc::supported_architectures();
    std::copy(all.begin(), all.end(), architectures);
    return success;
}

NVRTC_ENTRY(nvrtcCreateProgram, Program** program, const char* source, const char* name,
            int headers, const char* const*, const char* const*) {
    NVRTC_COUNT(nvrtcCreateProgram);
    if (!program || !source || headers != 0) return invalid_input;
    auto made = std::make_unique<Program>();
    made->source = source;
    made->name = name && *name ? name : "default_program";
    const std::lock_guard lock(mutex);
    programs.insert(made.get());
    *program = made.release();
    return success;
}

NVRTC_ENTRY(nvrtcDestroyProgram, Program** program) {
    NVRTC_COUNT(nvrtcDestroyProgram);
    if (!program) return invalid_program;
    {
        const std::lock_guard lock(mutex);
        if (programs.erase(*program) == 0) return invalid_program;
    }
    delete *program;
    *program = nullptr;
    return success;
}

NVRTC_ENTRY(nvrtcAddNameExpression, Program* program, const char* expression) {
    NVRTC_COUNT(nvrtcAddNameExpression);
    if (!exists(program)) return invalid_program;
    if (!expression) return invalid_input;
    if (program->was_compiled) return no_names_after_compilation;
    program->names.emplace_back(expression);
    return success;
}

NVRTC_ENTRY(nvrtcCompileProgram, Program* program, int count, const char* const* options) {
    NVRTC_COUNT(nvrtcCompileProgram);
    if (!exists(program)) return invalid_program;
    if (count < 0 || (count > 0 && !options)) return invalid_input;
    try {
        return compile(*program, {options, options + count});
    } catch (const std::exception& error) {
        program->log = std::string("stand-in for NVRTC: ") + error.what() + "\n";
        return internal_error;
    }
}

NVRTC_ENTRY(nvrtcGetLoweredName, Program* program, const char* expression, const char** lowered) {
    NVRTC_COUNT(nvrtcGetLoweredName);
    if (!exists(program)) return invalid_program;
    if (!expression || !lowered) return invalid_input;
    if (!program->image.compiled) return no_lowered_names_before_compilation;
    const auto found = std::find(program->names.begin(), program->names.end(), expression);
    if (found == program->names.end()) return name_not_valid;
    const auto at = static_cast<size_t>(found - program->names.begin());
    *lowered = program->image.lowered[at].c_str();
    return success;
}

NVRTC_ENTRY(nvrtcGetProgramLogSize, Program* program, size_t* size) {
    NVRTC_COUNT(nvrtcGetProgramLogSize);
    return give_text(program, &Program::log, size, nullptr);
}
NVRTC_ENTRY(nvrtcGetProgramLog, Program* program, char* log) {
    NVRTC_COUNT(nvrtcGetProgramLog);
    return give_text(program, &Program::log, nullptr, log);
}
NVRTC_ENTRY(nvrtcGetPTXSize, Program* program, size_t* size) {
    NVRTC_COUNT(nvrtcGetPTXSize);
    return give_text(program, &Program::ptx, size, nullptr);
}
NVRTC_ENTRY(nvrtcGetPTX, Program* program, char* ptx) {
    NVRTC_COUNT(nvrtcGetPTX);
    return give_text(program, &Program::ptx, nullptr, ptx);
}

NVRTC_ENTRY(nvrtcGetCUBINSize, Program* program, size_t* size) {
    NVRTC_COUNT(nvrtcGetCUBINSize);
    if (!exists(program)) return invalid_program;
    if (!size) return invalid_input;
    *size = program->has_cubin ? program->image.bytes.size() : 0;
    return success;
}
NVRTC_ENTRY(nvrtcGetCUBIN, Program* program, char* cubin) {
    NVRTC_COUNT(nvrtcGetCUBIN);
    if (!exists(program)) return invalid_program;
    if (!cubin || !program->has_cubin) return invalid_input;
    std::memcpy(cubin, program->image.bytes.data(), program->image.bytes.size());
    return success;
}

// The part of cuda/tack_sim.h that makes sense for a compiler.

NVRTC_EXPORT int tack_sim_fail(const char* spec) {
    return tack_sim::set_failures(spec, internal_error) ? 0 : 1;
}
NVRTC_EXPORT uint64_t tack_sim_call_count(const char* name) { return tack_sim::call_count(name); }
NVRTC_EXPORT void tack_sim_reset_counts() { tack_sim::reset_counts(); }
NVRTC_EXPORT uint64_t tack_sim_failed_count() { return tack_sim::failed_count(); }
NVRTC_EXPORT size_t tack_sim_calls(char* buffer, size_t size) {
    return fill(tack_sim::all_calls(), buffer, size);
}
NVRTC_EXPORT size_t tack_sim_live_objects(char* buffer, size_t size) {
    std::string text;
    const std::lock_guard lock(mutex);
    for (const Program* program : programs) text += "program " + program->name + "\n";
    return fill(text, buffer, size);
}

#include "backend/cpu/compiler.hpp"

#include <gnu/libc-version.h>

#include <cstdlib>
#include <optional>

#include "backend/cpu/object_loader.hpp"
#include "backend/cpu/processor.hpp"
#include "backend/cpu/toolchain.hpp"
#include "kernel/cache.hpp"
#include "tack/cache.hpp"
#include "tack/error.hpp"

namespace tack {
namespace cpu {
namespace {

std::unique_ptr<Toolchain> choose_toolchain() {
    const char* const choice = std::getenv("TACK_COMPILER");
    const std::string wanted = choice ? choice : "";
    if (!wanted.empty() && wanted != "embedded" && wanted != "system")
        throw Error(ErrorKind::value, "compile: TACK_COMPILER is '" + wanted +
                                          "'. Set it to embedded or system, or leave it unset.");
    std::string looked_for;
    if (wanted != "system") {
        if (auto embedded = embedded_toolchain()) return embedded;
        looked_for = "the embedded compiler " + embedded_path() + " (no such file)";
    }
    if (wanted != "embedded") {
        if (auto system = system_toolchain()) return system;
        const char* const named = std::getenv("TACK_CC");
        const char* const path = std::getenv("PATH");
        if (!looked_for.empty()) looked_for += ", ";
        looked_for += named && *named
                          ? std::string("TACK_CC=") + named + " (no such program)"
                          : std::string("cc, gcc and clang on PATH (") + (path ? path : "") + ")";
    }
    throw Error(ErrorKind::runtime, "compile: there is no C compiler. Looked for " + looked_for +
                                        ". Install gcc or clang, or name a compiler in TACK_CC.");
}

std::string cache_key(const Toolchain& toolchain, const std::string& source,
                      const CompileOptions& options) {
    std::string key = "tack " TACK_VERSION "\ncompiler " + toolchain.identity() + "\nprocessor " +
                      processor_signature() + "\nfeatures";
    for (const std::string_view feature : processor_features()) key.append(" ").append(feature);
    // Which of libmvec's functions the code may call.
    key.append("\nlibc ").append(gnu_get_libc_version());
    key += options.fast_math ? "\nfast_math\n" : "\n";
    return key + source;
}

}  // namespace

detail::Ref<Module> compile(const std::string& source, const CompileOptions& options) {
    const auto toolchain = choose_toolchain();
    const std::string key = cache_key(*toolchain, source, options);
    if (const std::optional<std::string> object = kernel::cache::load(key)) {
        try {
            return load_object(*object);
        } catch (const Error&) {
            // Whatever is wrong with the entry, a new compilation replaces it or says so.
        }
    }
    const std::string object = toolchain->run(source, options, Output::object);
    detail::Ref<Module> module = load_object(object);
    kernel::cache::store(key, object);
    return module;
}

std::string compile_to_assembly(const std::string& source, const CompileOptions& options) {
    return choose_toolchain()->run(source, options, Output::assembly);
}

std::string compiler_description() {
    try {
        return choose_toolchain()->description();
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace cpu

std::string compiler_description() { return cpu::compiler_description(); }

}  // namespace tack

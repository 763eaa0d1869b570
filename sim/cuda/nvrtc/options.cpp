#include "cuda/nvrtc/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace tack_sim::nvrtc {

namespace {

enum class Value { none, boolean, text };

struct Known {
    std::string_view name;   // as --name
    std::string_view brief;  // as -brief, where that is another word
    Value value;
};

// Each goes with one or two dashes. Those that need a linker of device code are left out.
constexpr std::array<Known, 44> known_options{{
    {"gpu-architecture", "arch", Value::text},
    {"std", "", Value::text},
    {"define-macro", "D", Value::text},
    {"undefine-macro", "U", Value::text},
    {"include-path", "I", Value::text},
    {"fmad", "", Value::boolean},
    {"ftz", "", Value::boolean},
    {"prec-div", "", Value::boolean},
    {"prec-sqrt", "", Value::boolean},
    {"use_fast_math", "", Value::none},
    {"extra-device-vectorization", "", Value::none},
    {"device-as-default-execution-space", "default-device", Value::none},
    {"device-int128", "", Value::none},
    {"device-debug", "G", Value::none},
    {"generate-line-info", "lineinfo", Value::none},
    {"dopt", "", Value::text},
    {"ptxas-options", "Xptxas", Value::text},
    {"maxrregcount", "", Value::text},
    {"restrict", "", Value::none},
    {"disable-warnings", "w", Value::none},
    {"no-source-include", "", Value::none},
    {"minimal", "", Value::none},
    {"split-compile", "", Value::text},
    {"no-cache", "", Value::none},
    {"builtin-move-forward", "", Value::boolean},
    {"builtin-initializer-list", "", Value::boolean},
    {"optimization-info", "opt-info", Value::text},
    {"display-error-number", "err-no", Value::none},
    {"no-display-error-number", "no-err-no", Value::none},
    {"diag-error", "", Value::text},
    {"diag-suppress", "", Value::text},
    {"diag-warn", "", Value::text},
    {"brief-diagnostics", "brief-diag", Value::boolean},
    {"time", "", Value::text},
    {"jump-table-density", "jtd", Value::text},
    {"modify-stack-limit", "", Value::boolean},
    {"device-stack-protector", "", Value::boolean},
    {"random-seed", "frandom-seed", Value::text},
    {"version-ident", "dQ", Value::boolean},
    {"pre-include", "include", Value::text},
    {"device-float128", "", Value::none},
    {"Ofast-compile", "Ofc", Value::text},
    {"fdevice-time-trace", "", Value::text},
    {"fdevice-syntax-only", "", Value::none},
}};

struct Given {
    std::string_view name;  // the long one
    Value kind = Value::none;
    std::optional<std::string_view> value;
};

/// An option of one letter may have its value right behind it, or after a space.
std::optional<Given> recognize(std::string_view text) {
    if (!text.starts_with('-')) return {};
    const std::string_view bare = text.substr(text.starts_with("--") ? 2 : 1);
    for (const Known& known : known_options) {
        const std::string_view letter = known.brief;
        if (letter.size() == 1 && known.value == Value::text && text[1] == letter[0] &&
            text.size() > 2) {
            std::string_view value = text.substr(2);
            value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
            return Given{known.name, known.value, value};
        }
        const std::size_t equals = bare.find('=');
        const std::string_view name = bare.substr(0, equals);
        if (name.empty() || (name != known.name && name != known.brief)) continue;
        Given given{known.name, known.value, {}};
        if (equals != bare.npos) given.value = bare.substr(equals + 1);
        return given;
    }
    return {};
}

/// sm_90, compute_75, sm_90a, sm_100f.
bool parse_architecture(std::string_view value, Options& out) {
    out.makes_cubin = value.starts_with("sm_");
    if (!out.makes_cubin && !value.starts_with("compute_")) return false;
    value.remove_prefix(value.find('_') + 1);
    int number = 0;
    while (!value.empty() && std::isdigit(static_cast<unsigned char>(value[0])) && number < 1000) {
        number = 10 * number + (value[0] - '0');
        value.remove_prefix(1);
    }
    out.architecture = number;
    const std::vector<int>& all = supported_architectures();
    return (value.empty() || (number >= 90 && value == "a") || (number >= 100 && value == "f")) &&
           std::find(all.begin(), all.end(), number) != all.end();
}

bool parse_standard(std::string_view value, Options& out) {
    if (!value.starts_with("c++")) return false;
    value.remove_prefix(3);
    out.standard = value;
    // The prelude needs C++17.
    if (value == "03" || value == "11" || value == "14") out.standard = "17";
    return value == "03" || value == "11" || value == "14" || value == "17" || value == "20" ||
           value == "23";
}

/// Options whose value may be the next argument.
bool takes_next(std::string_view name) {
    return name == "gpu-architecture" || name == "define-macro" || name == "undefine-macro" ||
           name == "include-path";
}

/// What is wrong with a known option; empty: nothing.
std::string apply(const Given& given, Options& out) {
    const std::string name = "--" + std::string(given.name);
    if (given.kind == Value::none && given.value) return name + " takes no value";
    if (given.kind == Value::boolean && given.value != "true" && given.value != "false")
        return name + " needs =true or =false";
    if (given.kind == Value::text && !given.value) return name + " needs a value";
    const std::string value(given.value.value_or(""));
    bool valid = true;
    if (given.name == "gpu-architecture") valid = parse_architecture(value, out);
    if (given.name == "std") valid = parse_standard(value, out);
    if (given.name == "define-macro") out.host.push_back("-D" + value);
    if (given.name == "undefine-macro") out.host.push_back("-U" + value);
    if (given.name == "include-path") out.host.push_back("-I" + value);
    if (given.name == "fmad") out.fmad = value == "true";
    if (given.name == "use_fast_math") out.fmad = true;
    if (given.name == "device-as-default-execution-space") out.device_by_default = true;
    if (given.name == "device-int128") out.int128 = true;
    return valid ? "" : name + " does not know '" + value + "'";
}

}  // namespace

const std::vector<int>& supported_architectures() {
    static const std::vector<int> all = {75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121};
    return all;
}

Options parse_options(const std::vector<std::string>& options) {
    Options out;
    for (std::size_t i = 0; i < options.size(); ++i) {
        std::optional<Given> given = recognize(options[i]);
        if (!given) {
            out.error = "there is no option '" + options[i] + "'";
            return out;
        }
        if (!given->value && takes_next(given->name) && i + 1 < options.size())
            given->value = options[++i];
        out.error = apply(*given, out);
        if (!out.error.empty()) return out;
    }
    return out;
}

}  // namespace tack_sim::nvrtc

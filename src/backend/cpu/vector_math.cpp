#include "backend/cpu/vector_math.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "backend/cpu/object_loader.hpp"
#include "backend/cpu/processor.hpp"

namespace tack::cpu {
namespace {

// What libmvec has within 4 ULP of the right value, by libm's names; those of two arguments last.
constexpr std::array<std::string_view, 25> names = {
    "acos", "acosh", "asin", "asinh", "atan",  "atanh", "cbrt",  "cos",   "cosh",
    "erf",  "erfc",  "exp",  "exp2",  "expm1", "log",   "log10", "log1p", "log2",
    "sin",  "sinh",  "tan",  "tanh",  "atan2", "hypot", "pow"};
constexpr std::size_t unary_count = 22;
constexpr std::string_view own_prefix = "tack_";

template <class T>
struct Wide {
    typedef T Vector __attribute__((vector_size(32)));
};
template <class T>
using Vector = typename Wide<T>::Vector;

/// The vector function of names[k], where there is one. More: T again for a second argument.
template <std::size_t k, class T, class... More>
Vector<T> (*vector_function)(Vector<T>, Vector<More>...) = nullptr;

template <class T>
[[gnu::target("avx2")]] inline Vector<T> in_all_lanes(T x) {
    Vector<T> v{};
    for (std::size_t lane = 0; lane < sizeof v / sizeof x; ++lane) v[lane] = x;
    return v;
}

/// The scalar entry. Only where there is a vector function, and AVX2 with it.
template <std::size_t k, class T, class... More>
[[gnu::target("avx2")]] T scalar_function(T x, More... more) {
    return vector_function<k, T, More...>(in_all_lanes(x), in_all_lanes(more)...)[0];
}

struct MathFunctions {
    std::vector<VectorFunction> vectors;
    std::map<std::string, void*, std::less<>> addresses;

    MathFunctions() {
        const auto& features = processor_features();
        for (const std::string_view needed : {"avx2", "fma"})
            if (std::find(features.begin(), features.end(), needed) == features.end()) return;
        // Part of glibc, and in use by any process whose compiler found it: never unloaded.
        void* const libmvec = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!libmvec) return;
        [&]<std::size_t... k>(std::index_sequence<k...>) {
            (add<k, float>(libmvec, "f"), ...);
            (add<k, double>(libmvec, ""), ...);
        }(std::make_index_sequence<unary_count>());
        [&]<std::size_t... k>(std::index_sequence<k...>) {
            (add<unary_count + k, float, float>(libmvec, "f"), ...);
            (add<unary_count + k, double, double>(libmvec, ""), ...);
        }(std::make_index_sequence<names.size() - unary_count>());
    }

private:
    template <std::size_t k, class T, class... More>
    void add(void* libmvec, const char* suffix) {
        constexpr unsigned width = sizeof(Vector<T>) / sizeof(T);
        const std::string shape = "N" + std::to_string(width) + (sizeof...(More) == 0 ? "v" : "vv");
        const std::string name = std::string(names[k]) + suffix;
        // "d" is AVX2 in the vector ABI.
        VectorFunction f{std::string(own_prefix) + name, "_ZGVd" + shape + "_" + name,
                         "_ZGV_LLVM_" + shape, width};
        void* const address = dlsym(libmvec, f.vector.c_str());
        if (!address) return;  // an older glibc
        auto& function = vector_function<k, T, More...>;
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
        addresses[f.vector] = address;
        addresses[f.scalar] = reinterpret_cast<void*>(&scalar_function<k, T, More...>);
        vectors.push_back(std::move(f));
    }
};

const MathFunctions& math_functions() {
    static const auto* const functions = new MathFunctions;
    return *functions;
}

}  // namespace

std::span<const VectorFunction> vector_functions() { return math_functions().vectors; }

void* math_symbol(std::string_view name) {
    const auto& addresses = math_functions().addresses;
    if (const auto found = addresses.find(name); found != addresses.end()) return found->second;
    if (!name.starts_with(own_prefix)) return nullptr;
    name.remove_prefix(own_prefix.size());
    for (const ExternalSymbol& symbol : external_symbols())
        if (symbol.name == name) return symbol.address;
    return nullptr;
}

}  // namespace tack::cpu

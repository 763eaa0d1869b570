#include <math.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "backend/cpu/object_loader.hpp"

// Functions that compilers call where the processor has no instruction. Only their addresses are
// used here, and some have types that C++ lacks.
// clang-format off
#define TACK_LIBGCC(X)                                                                            \
    X(__divti3) X(__modti3) X(__udivti3) X(__umodti3) X(__divmodti4) X(__udivmodti4)              \
    X(__floattidf) X(__floattisf) X(__floatuntidf) X(__floatuntisf)                               \
    X(__fixdfti) X(__fixsfti) X(__fixunsdfti) X(__fixunssfti)                                     \
    X(__powidf2) X(__powisf2) X(__popcountdi2)                                                    \
    X(__extendhfsf2) X(__extendhfdf2) X(__truncsfhf2) X(__truncdfhf2) X(__eqhf2) X(__nehf2)
// clang-format on
#define TACK_DECLARE(name) extern "C" void name();
TACK_LIBGCC(TACK_DECLARE)

namespace tack::cpu {
namespace {

template <class Function>
ExternalSymbol symbol(std::string_view name, Function* function) {
    return {name, reinterpret_cast<void*>(function)};
}

// The types pick C's functions among C++'s overloads.
#define TACK_BOTH(name, double_type, float_type) \
    symbol<double_type>(#name, ::name), symbol<float_type>(#name "f", ::name##f),
#define TACK_UNARY(name) TACK_BOTH(name, double(double), float(float))
#define TACK_BINARY(name) TACK_BOTH(name, double(double, double), float(float, float))
#define TACK_PLAIN(name) symbol<void()>(#name, name),

// The C library's own are up to 10 units in the last place off, and those of the next wider type
// are not; lgamma() sets a global variable besides.
float gamma_of_float(float x) { return static_cast<float>(::tgamma(static_cast<double>(x))); }
double gamma_of_double(double x) { return static_cast<double>(::tgammal(x)); }
float lgamma_of_float(float x) {
    int sign = 0;
    return static_cast<float>(::lgamma_r(static_cast<double>(x), &sign));
}
double lgamma_of_double(double x) {
    int sign = 0;
    return static_cast<double>(::lgammal_r(x, &sign));
}

auto sorted_symbols() {
    std::array symbols = {
        // clang-format off
        TACK_UNARY(acos) TACK_UNARY(acosh) TACK_UNARY(asin) TACK_UNARY(asinh) TACK_UNARY(atan)
        TACK_UNARY(atanh) TACK_UNARY(cbrt) TACK_UNARY(ceil) TACK_UNARY(cos) TACK_UNARY(cosh)
        TACK_UNARY(erf) TACK_UNARY(erfc) TACK_UNARY(exp) TACK_UNARY(exp10) TACK_UNARY(exp2)
        TACK_UNARY(expm1) TACK_UNARY(fabs) TACK_UNARY(floor) TACK_UNARY(log)
        TACK_UNARY(log10) TACK_UNARY(log1p) TACK_UNARY(log2) TACK_UNARY(logb)
        TACK_UNARY(nearbyint) TACK_UNARY(rint) TACK_UNARY(round) TACK_UNARY(roundeven)
        TACK_UNARY(sin) TACK_UNARY(sinh) TACK_UNARY(sqrt) TACK_UNARY(tan) TACK_UNARY(tanh)
        TACK_UNARY(trunc)
        TACK_BINARY(atan2) TACK_BINARY(copysign) TACK_BINARY(fdim) TACK_BINARY(fmax)
        TACK_BINARY(fmin) TACK_BINARY(fmod) TACK_BINARY(hypot) TACK_BINARY(nextafter)
        TACK_BINARY(pow) TACK_BINARY(remainder)
        TACK_BOTH(fma, double(double, double, double), float(float, float, float))
        TACK_BOTH(frexp, double(double, int*), float(float, int*))
        TACK_BOTH(ldexp, double(double, int), float(float, int))
        TACK_BOTH(scalbn, double(double, int), float(float, int))
        TACK_BOTH(modf, double(double, double*), float(float, float*))
        TACK_BOTH(lround, long(double), long(float)) TACK_BOTH(lrint, long(double), long(float))
        TACK_BOTH(llround, long long(double), long long(float))
        TACK_BOTH(llrint, long long(double), long long(float))
        TACK_BOTH(sincos, void(double, double*, double*), void(float, float*, float*))
        symbol<void*(void*, const void*, size_t)>("memcpy", ::memcpy),
        symbol<void*(void*, const void*, size_t)>("memmove", ::memmove),
        symbol<void*(void*, int, size_t)>("memset", ::memset),
        symbol<int(const void*, const void*, size_t)>("memcmp", ::memcmp),
        symbol<int(const void*, const void*, size_t)>("bcmp", ::bcmp),
        symbol<size_t(const char*)>("strlen", ::strlen),
        TACK_LIBGCC(TACK_PLAIN)
        // clang-format on
        symbol<double(double)>("lgamma", lgamma_of_double),
        symbol<float(float)>("lgammaf", lgamma_of_float),
        symbol<double(double)>("tgamma", gamma_of_double),
        symbol<float(float)>("tgammaf", gamma_of_float),
    };
    std::sort(symbols.begin(), symbols.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return symbols;
}

}  // namespace

std::span<const ExternalSymbol> external_symbols() {
    static const auto symbols = sorted_symbols();
    return symbols;
}

}  // namespace tack::cpu

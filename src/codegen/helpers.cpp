#include "codegen/helpers.hpp"

#include <algorithm>
#include <array>

namespace tack::codegen {

namespace {

int bits(DType d) { return static_cast<int>(itemsize(d)) * 8; }

/// Replaces each $name of `text` by the value beside it.
std::string fill_in(std::string text,
                    std::initializer_list<std::pair<std::string_view, std::string>> values) {
    for (const auto& [key, value] : values)
        for (std::size_t at = text.find(key); at != std::string::npos;
             at = text.find(key, at + value.size()))
            text.replace(at, key.size(), value);
    return text;
}

std::string suffixed(const char* name, DType dtype) {
    return std::string("tack_") + name + "_" + std::string(type_name(dtype));
}

std::string unsigned_name(DType d) { return "u" + std::to_string(bits(d)); }

/// The unsigned type in which operations on an integer dtype never overflow: C computes smaller
/// ones as int.
std::string wrapping_name(DType d) { return bits(d) == 64 ? "u64" : "u32"; }

/// The largest value of an integer dtype, as an unsigned literal.
std::string highest(DType d) {
    const int value_bits = bits(d) - (is_signed_integer(d) ? 1 : 0);
    return std::to_string(~std::uint64_t{0} >> (64 - value_bits)) + "ull";
}

/// 2 to the power of `exponent`, as a literal of the floating type.
std::string power_of_two(int exponent, DType d) {
    return "0x1p" + std::to_string(exponent) + (d == DType::float32 ? "f" : "");
}

const char* float_suffix(DType d) { return d == DType::float32 ? "f" : ""; }

}  // namespace

std::string zero(DType dtype) {
    return "(" + std::string(dtype == DType::bool_ ? "u8" : type_name(dtype)) +
           (dtype == DType::float16 ? ")0.0f" : ")0");
}

std::string_view type_name(DType dtype) {
    constexpr std::array<std::string_view, dtype_count> names = {
        "b8", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"};
    return names[static_cast<std::size_t>(dtype)];
}

std::string Helpers::add(std::string name, const std::string& source) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
        text_ += fill_in(source, {{"$name", name},
                                  {"$inline", std::string(target_.inlined)},
                                  {"$rare", std::string(target_.rare)},
                                  {"$array ", std::string(target_.array_space)},
                                  {"$builtin_", std::string(target_.builtin)}});
        names_.push_back(name);
    }
    return name;
}

std::string Helpers::floor_divide(DType d) {
    const std::string t(type_name(d));
    if (is_floating(d))
        return add(suffixed("floordiv", d), fill_in(R"(
$inline $t $name($t a, $t b) {
    if (b == 0) return a / b;
    $t r = $builtin_fmod$s(a, b), q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return $builtin_copysign$s(($t)0, a / b);
    $t f = $builtin_floor$s(q);
    return q - f > ($t)0.5 ? f + 1 : f;
}
)",
                                                    {{"$t", t}, {"$s", float_suffix(d)}}));
    // Up to 32 bits a double's quotient is exact enough to floor.
    const bool by_doubles = target_.divides_by_doubles && bits(d) <= 32;
    const char* source = by_doubles && d == DType::int32 ? R"(
$inline $t $name($t a, $t b) {
    f64 q = $builtin_floor((f64)a / (f64)b);
    return b == 0 ? 0 : ($t)(q > 0x7fffffff ? -0x1p31 : q);
}
)"
                         : by_doubles                    ? R"(
$inline $t $name($t a, $t b) {
    return b == 0 ? ($t)0 : ($t)($w)$builtin_floor((f64)a / (f64)b);
}
)"
                         : is_signed_integer(d)          ? R"(
$inline $t $name($t a, $t b) {
    if (b == 0) return 0;
    if (b == -1) return ($t)(0 - ($wrapping)a);
    $t q = ($t)(a / b);
    return ($t)(q - (q * b != a && (a < 0) != (b < 0)));
}
)"
                                                         : R"(
$inline $t $name($t a, $t b) { return b == 0 ? ($t)0 : ($t)(a / b); }
)";
    return add(suffixed("floordiv", d),
               fill_in(source, {{"$t", t},
                                {"$wrapping", wrapping_name(d)},
                                {"$w", d == DType::uint32 ? "u32" : "i32"}}));
}

std::string Helpers::remainder(DType d) {
    const std::string t(type_name(d));
    if (is_floating(d))
        return add(suffixed("mod", d), fill_in(R"(
$inline $t $name($t a, $t b) {
    $t r = $builtin_fmod$s(a, b);
    if (b == 0) return r;
    if (r == 0) return $builtin_copysign$s(($t)0, b);
    return (b < 0) != (r < 0) ? r + b : r;
}
)",
                                               {{"$t", t}, {"$s", float_suffix(d)}}));
    return add(suffixed("mod", d),
               fill_in(R"(
$inline $t $name($t a, $t b) {
    return b == 0 ? ($t)0 : ($t)(($w)a - ($w)$divide(a, b) * ($w)b);
}
)",
                       {{"$t", t}, {"$w", wrapping_name(d)}, {"$divide", floor_divide(d)}}));
}

std::string Helpers::shift(bool left, DType d) {
    const std::string t(type_name(d));
    const char* source = left                   ? R"(
$inline $t $name($t a, $t n) { return ($u)n >= $bits ? ($t)0 : ($t)(($w)a << ($u)n); }
)"
                         : is_signed_integer(d) ? R"(
$inline $t $name($t a, $t n) { return ($t)(a >> (($u)n >= $bits ? $bits - 1 : ($u)n)); }
)"
                                                : R"(
$inline $t $name($t a, $t n) { return n >= $bits ? ($t)0 : ($t)(a >> n); }
)";
    return add(suffixed(left ? "shl" : "shr", d),
               fill_in(source, {{"$t", t},
                                {"$u", unsigned_name(d)},
                                {"$w", wrapping_name(d)},
                                {"$bits", std::to_string(bits(d))}}));
}

std::string Helpers::power(DType d) {
    const bool is_signed = is_signed_integer(d);
    return add(suffixed("pow", d),
               fill_in(R"(
$inline $t $name($t a, $t n) {
    $negative$t r = 1;
    for ($u e = ($u)n; e; e = ($u)(e >> 1)) {
        if (e & 1) r = ($t)(($w)r * ($w)a);
        a = ($t)(($w)a * ($w)a);
    }
    return r;
}
)",
                       {{"$negative", is_signed ? "if (n < 0) return a == 1 ? 1 : a != -1 ? 0 : n "
                                                  "& 1 ? -1 : 1;\n    "
                                                : ""},
                        {"$t", std::string(type_name(d))},
                        {"$w", wrapping_name(d)},
                        {"$u", unsigned_name(d)}}));
}

std::string Helpers::square(DType d) {
    return add(
        suffixed("square", d),
        fill_in(is_floating(d) ? "\n$inline $t $name($t a) { return a * a; }\n"
                               : "\n$inline $t $name($t a) { return ($t)(($w)a * ($w)a); }\n",
                {{"$t", std::string(type_name(d))}, {"$w", wrapping_name(d)}}));
}

std::string Helpers::extremum(bool maximum, DType d) {
    return add(suffixed(maximum ? "max" : "min", d),
               fill_in("\n$inline $t $name($t a, $t b) { return a $op b$nan ? a : b; }\n",
                       {{"$t", std::string(type_name(d))},
                        {"$op", maximum ? ">" : "<"},
                        {"$nan", is_floating(d) ? " || a != a" : ""}}));
}

std::string Helpers::absolute(DType d) {
    return add(suffixed("abs", d),
               fill_in("\n$inline $t $name($t a) { return a < 0 ? ($t)(0 - ($w)a) : a; }\n",
                       {{"$t", std::string(type_name(d))}, {"$w", wrapping_name(d)}}));
}

std::string Helpers::saturate(DType from, DType to) {
    const int value_bits = bits(to) - (is_signed_integer(to) ? 1 : 0);
    return add("tack_" + std::string(type_name(from)) + "_to_" + std::string(type_name(to)),
               fill_in(R"(
$inline $t $name($f a) {
    if (a >= $above) return ($t)$highest;
    return a > $below ? ($t)a : a <= $below ? ($t)$lowest : ($t)0;
}
)",
                       {{"$t", std::string(type_name(to))},
                        {"$f", std::string(type_name(from))},
                        {"$above", power_of_two(value_bits, from)},
                        {"$below", is_signed_integer(to) ? "-" + power_of_two(value_bits, from)
                                                         : "-" + power_of_two(0, from)},
                        {"$highest", highest(to)},
                        {"$lowest", is_signed_integer(to) ? "(" + highest(to) + " + 1)" : "0"}}));
}

std::string Helpers::to_bits(DType d) {
    if (!number(d).to_bits.empty()) return std::string(number(d).to_bits);
    return add(suffixed("bits", d),
               fill_in(R"(
$inline $u $name($t a) {
    $u b;
    $builtin_memcpy(&b, &a, sizeof b);
    return b;
}
)",
                       {{"$t", std::string(type_name(d))}, {"$u", unsigned_name(d)}}));
}

std::string Helpers::from_bits(DType d) {
    if (!number(d).from_bits.empty()) return std::string(number(d).from_bits);
    return add(suffixed("from_bits", d),
               fill_in(R"(
$inline $t $name($u b) {
    $t a;
    $builtin_memcpy(&a, &b, sizeof a);
    return a;
}
)",
                       {{"$t", std::string(type_name(d))}, {"$u", unsigned_name(d)}}));
}

std::string Helpers::to_odd() {
    return add("tack_f64_to_odd_f32", fill_in(R"(
$inline f32 $name(f64 a) {
    f32 f = (f32)a;
    u32 b = $to_bits(f);
    f64 back = (f64)f, size = back < 0 ? -back : back, exact = a < 0 ? -a : a;
    if (size != exact && !(b & 1)) b = size > exact ? b - 1 : size < exact ? b + 1 : b;
    return $from_bits(b);
}
)",
                                              {{"$to_bits", to_bits(DType::float32)},
                                               {"$from_bits", from_bits(DType::float32)}}));
}

std::string Helpers::bfloat16_to_float32() {
    return add("tack_bf16_to_f32",
               fill_in("\n$inline f32 $name(bf16 a) { return $from_bits((u32)a << 16); }\n",
                       {{"$from_bits", from_bits(DType::float32)}}));
}

std::string Helpers::bfloat16_from(DType from) {
    // By integers: the processor's own instruction flushes denormals to zero.
    const std::string narrow =
        add("tack_f32_to_bf16", fill_in(R"(
$inline bf16 $name(f32 a) {
    u32 b = $to_bits(a);
    u32 rounded = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
    return (bf16)(a != a ? (b >> 16) | 0x40 : rounded);
}
)",
                                        {{"$to_bits", to_bits(DType::float32)}}));
    if (from == DType::float32) return narrow;
    // Rounding to odd in between makes the second rounding the only one that counts.
    return add("tack_f64_to_bf16",
               fill_in("\n$inline bf16 $name(f64 a) { return $narrow($to_odd(a)); }\n",
                       {{"$narrow", narrow}, {"$to_odd", to_odd()}}));
}

void Helpers::half() {
    if (!target_.half.empty()) return;
    // What is below the normal numbers is made by an addition whose result is exact, or rounds
    // where float16 does. No operand is subnormal, which fast_math takes for zero.
    const std::string source = R"(
$inline f32 tack_f16_to_f32(u16 a) {
    const u32 size = (a & 0x7fffu) << 13;
    const u32 b = size >= 0x7c00u << 13  ? size | 0x7f800000u
                  : size >= 0x400u << 13 ? size + 0x38000000u
                                         : $to_bits($from_bits(size + 0x38800000u) - 0x1p-14f);
    return $from_bits(b | (a & 0x8000u) << 16);
}

$inline u16 tack_f32_to_f16(f32 a) {
    const u32 b = $to_bits(a), size = b & 0x7fffffffu;
    u32 h;
    if (size > 0x7f800000u) h = 0x7e00u | (size >> 13 & 0x1ffu);
    else if (size >= 0x477ff000u) h = 0x7c00u;
    else if (size < 0x38800000u) h = $to_bits($from_bits(size) + 0.5f) - 0x3f000000u;
    else h = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    return (u16)(h | (b >> 16 & 0x8000u));
}

struct f16 {
    u16 bits;
    f16() = default;
    $memberexplicit f16(f32 a) : bits(tack_f32_to_f16(a)) {}
    $memberexplicit f16(f64 a) : bits(tack_f32_to_f16($to_odd(a))) {}
    $memberoperator f32() const { return tack_f16_to_f32(bits); }
};
)";
    add("f16", fill_in(source, {{"$to_bits", to_bits(DType::float32)},
                                {"$from_bits", from_bits(DType::float32)},
                                {"$to_odd", to_odd()},
                                {"$member", std::string(target_.member)}}));
}

std::string Helpers::compare_mixed(ir::Compare op) {
    struct Row {
        const char* name;
        const char* expression;
    };
    constexpr std::array<Row, 6> rows = {{{"eq", "a >= 0 && (u64)a == b"},
                                          {"ne", "a < 0 || (u64)a != b"},
                                          {"lt", "a < 0 || (u64)a < b"},
                                          {"le", "a < 0 || (u64)a <= b"},
                                          {"gt", "a >= 0 && (u64)a > b"},
                                          {"ge", "a >= 0 && (u64)a >= b"}}};
    const Row& row = rows[static_cast<std::size_t>(op)];
    return add(
        std::string("tack_") + row.name + "_i64_u64",
        fill_in("\n$inline b8 $name(i64 a, u64 b) { return $e; }\n", {{"$e", row.expression}}));
}

std::string Helpers::trips() {
    return add("tack_trips", R"(
$inline i64 $name(i64 start, i64 stop, i64 step) {
    if (step > 0) return start < stop ? (i64)(((u64)stop - (u64)start - 1) / (u64)step + 1) : 0;
    if (step < 0) return start > stop ? (i64)(((u64)start - (u64)stop - 1) / -(u64)step + 1) : 0;
    return 0;
}
)");
}

std::string Helpers::compare_exchange(DType d) {
    return add("tack_compare_exchange_" + unsigned_name(d),
               fill_in("\n$inline b8 $name($array $u *cell, $u *seen, $u wanted) {" +
                           std::string(target_.compare_exchange) + "}\n",
                       {{"$u", unsigned_name(d)}}));
}

std::string Helpers::atomic(ir::Atomic op, DType d) {
    constexpr std::array<const char*, 3> names = {"atomic_add", "atomic_min", "atomic_max"};
    const auto which = static_cast<std::size_t>(op);
    const Target::Atomic& row = target_.atomics[which];
    const std::string_view native = is_floating(d) ? row.of_floats : row.of_integers;
    const std::string t(type_name(d));
    if (!native.empty())
        return add(suffixed(names[which], d),
                   fill_in("\n$inline $t $name($array $t *cell, $t value) {\n    return ($t)" +
                               std::string(native) + ";\n}\n",
                           {{"$t", t}, {"$u", unsigned_name(d)}}));
    const std::string combine = op == ir::Atomic::add
                                    ? "old + value"
                                    : extremum(op == ir::Atomic::maximum, d) + "(old, value)";
    const std::string exchange = compare_exchange(d);
    const std::string seen = is_floating(d) ? from_bits(d) + "(seen)" : "(" + t + ")seen";
    const std::string wanted =
        is_floating(d) ? to_bits(d) + "(" + combine + ")" : "(" + unsigned_name(d) + ")" + combine;
    // Compared as bits, so that a NaN in the cell does not make the loop endless.
    return add(suffixed(names[which], d), fill_in(R"(
$inline $t $name($array $t *cell, $t value) {
    $u seen = $load, wanted;
    $t old;
    do {
        old = $seen;
        wanted = $wanted;
    } while (!$exchange(($array $u *)cell, &seen, wanted));
    return old;
}
)",
                                                  {{"$load", std::string(target_.atomic_load)},
                                                   {"$seen", seen},
                                                   {"$wanted", wanted},
                                                   {"$exchange", exchange},
                                                   {"$t", t},
                                                   {"$u", unsigned_name(d)}}));
}

std::string Helpers::plain_add(DType d) {
    return add(suffixed("plain_add", d), fill_in(R"(
$inline $t $name($t *cell, $t value) {
    $t old = *cell;
    *cell = ($t)(old + value);
    return old;
}
)",
                                                 {{"$t", std::string(type_name(d))}}));
}

std::string Helpers::builtin(std::string_view function, DType d) const {
    return std::string(target_.builtin) + std::string(function) + float_suffix(d);
}

std::string Helpers::classify(ir::Math function, DType d) {
    const std::string name(ir::name(function));
    if (!target_.builtin.empty()) return std::string(target_.builtin) + name;
    const char* test = function == ir::Math::isnan   ? "a != a"
                       : function == ir::Math::isinf ? "$magnitude(a) == $infinity"
                                                     : "$magnitude(a) < $infinity";
    return add(suffixed(name.c_str(), d),
               fill_in("\n$inline b8 $name($t a) { return " + std::string(test) + "; }\n",
                       {{"$t", std::string(type_name(d))},
                        {"$magnitude", magnitude(d)},
                        {"$infinity", std::string(number(d).infinity)}}));
}

std::string Helpers::math(ir::Math function, DType d) {
    std::string name(ir::name(function));
    switch (function) {
        // The compiler's own, which become instructions.
        case ir::Math::ceil:
        case ir::Math::copysign:
        case ir::Math::floor:
        case ir::Math::fmod:
        case ir::Math::sqrt:
        case ir::Math::trunc:
            return builtin(name, d);
        case ir::Math::isfinite:
        case ir::Math::isinf:
        case ir::Math::isnan:
            return classify(function, d);
        case ir::Math::gamma:
            name = "tgamma";
            break;
        default:
            break;
    }
    return declare(name, function == ir::Math::atan2 || function == ir::Math::hypot, d);
}

std::string Helpers::math_power(DType d) { return declare("pow", true, d); }

std::string Helpers::round(DType d) { return builtin("rint", d); }

std::string Helpers::magnitude(DType d) { return builtin("fabs", d); }

std::string Helpers::philox() {
    return add("tack_philox", R"(
$inline u64 $name(u64 key, u64 a, u64 b) {
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    u32 c0 = (u32)a, c1 = (u32)(a >> 32), c2 = (u32)b, c3 = (u32)(b >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 p = (u64)0xD2511F53u * c0, q = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(q >> 32) ^ c1 ^ k0;
        c1 = (u32)q;
        c2 = (u32)(p >> 32) ^ c3 ^ k1;
        c3 = (u32)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0 | (u64)c1 << 32;
}
)");
}

std::string Helpers::random(DType d) {
    return add(suffixed("random", d), d == DType::float32 ? R"(
$inline f32 $name(u64 words) { return (f32)((u32)words >> 8) * 0x1p-24f; }
)"
                                                          : R"(
$inline f64 $name(u64 words) { return (f64)(i64)(words >> 11) * 0x1p-53; }
)");
}

std::string Helpers::checked(const std::string& name, DType d, int ndim,
                             const std::string& source) {
    const std::string outside =
        add("tack_outside", fill_in(R"(
struct fault {
    u32 recorded;
    i32 parameter, axis;
    i64 index, extent;
};
$rare b8 $name($array struct fault *fault, i32 parameter, i32 axis, i64 index, i64 extent) {
    u32 none = 0;
    if ($exchange(&fault->recorded, &none, 1)) {
        fault->parameter = parameter;
        fault->axis = axis;
        fault->index = index;
        fault->extent = extent;
    }
    return 0;
}
)",
                                    {{"$exchange", compare_exchange(DType::uint32)}}));
    std::string axes;
    std::string tests;
    std::string at = "i0";
    std::string passed;
    for (int axis = 0; axis < ndim; ++axis) {
        const std::string k = std::to_string(axis);
        axes += ", i64 i" + k + ", i64 n" + k;
        passed += ", i" + k + ", n" + k;
        tests += "    if ((u64)i" + k + " >= (u64)n" + k + ") return " + outside +
                 "(fault, parameter, " + k + ", i" + k + ", n" + k + ");\n";
        if (axis) at = "(" + at + ") * n" + k + " + i" + k;
    }
    const std::string inside = add("tack_inside_" + std::to_string(ndim),
                                   "\n$inline b8 $name($array struct fault *fault, i32 parameter" +
                                       axes + ") {\n" + tests + "    return 1;\n}\n");
    return add(name, fill_in(source,
                             {{"$t", d == DType::bool_ ? "u8" : std::string(type_name(d))},
                              {"$parameters", "$array struct fault *fault, i32 parameter, $array "},
                              {"$zero", zero(d)},
                              {"$axes", axes},
                              {"$inside", inside + "(fault, parameter" + passed + ")"},
                              {"$at", at}}));
}

std::string Helpers::checked_load(DType d, int ndim) {
    return checked(suffixed("load", d) + "_" + std::to_string(ndim), d, ndim, R"(
$inline $t $name($parametersconst $t *x$axes) { return $inside ? x[$at] : $zero; }
)");
}

std::string Helpers::checked_store(DType d, int ndim) {
    return checked(suffixed("store", d) + "_" + std::to_string(ndim), d, ndim, R"(
$inline void $name($parameters$t *x$axes, $t value) { if ($inside) x[$at] = value; }
)");
}

std::string Helpers::checked_atomic(ir::Atomic op, DType d, int ndim) {
    const std::string unchecked = atomic(op, d);
    return checked(unchecked + "_" + std::to_string(ndim), d, ndim, R"(
$inline $t $name($parameters$t *x$axes, $t value) {
    return $inside ? )" + unchecked + R"((x + ($at), value) : $zero;
}
)");
}

std::string Helpers::declare(const std::string& function, bool binary, DType d) {
    const std::string symbol = function + float_suffix(d);
    if (!target_.own_math) return symbol;
    // One of Tack's own entries, which may have a vector form; see vector_math.hpp.
    return add("tack_" + symbol, fill_in(binary ? "\n$t $name($t, $t) __attribute__((const));\n"
                                                : "\n$t $name($t) __attribute__((const));\n",
                                         {{"$t", std::string(type_name(d))}}));
}

std::string Helpers::text() const {
    return std::string(target_.head) + "typedef " + std::string(target_.boolean) + R"( b8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef u16 bf16;
typedef float f32;
typedef double f64;
)" + std::string(target_.half) +
           text_;
}

}  // namespace tack::codegen

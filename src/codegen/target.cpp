#include "codegen/target.hpp"

namespace tack::codegen {

const Target host_target = {
    .head = "",
    .inlined = "static inline",
    .rare = "static __attribute__((noinline, cold))",
    .routine = "__attribute__((unused)) static",
    .boolean = "_Bool",
    .half = "typedef _Float16 f16;\n",
    .no_alias = "restrict ",
    .array_space = "",
    .member = "",
    .signed_overflow_wraps = true,
    .divides_by_doubles = true,
    .builtin = "__builtin_",
    .own_math = true,
    .f32 = {"__builtin_inff()", "__builtin_nanf(\"\")", "", ""},
    .f64 = {"__builtin_inf()", "__builtin_nan(\"\")", "", ""},
    .atomics = {{{"__atomic_fetch_add(($u *)cell, ($u)value, __ATOMIC_RELAXED)", ""},
                 {"", ""},
                 {"", ""}}},
    .atomic_load = "__atomic_load_n(($u *)cell, __ATOMIC_RELAXED)",
    .compare_exchange = R"(
    return __atomic_compare_exchange_n(cell, seen, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
)",
    .entry = "",
    .thread = "",
    .threads = "",
};

const Target cuda_target = {
    // Variables that a program assigns and does not use are its own affair.
    .head = "#pragma nv_diag_suppress 177, 550\n",
    .inlined = "static __device__ inline",
    .rare = "static __device__ __noinline__",
    .routine = "static __device__",
    .boolean = "bool",
    .half = "",
    .no_alias = "__restrict__ ",
    .array_space = "",
    .member = "__device__ ",
    .signed_overflow_wraps = false,
    .divides_by_doubles = false,
    .builtin = "",
    .own_math = false,
    .f32 = {"__uint_as_float(0x7f800000u)", "__uint_as_float(0x7fc00000u)", "__float_as_uint",
            "__uint_as_float"},
    .f64 = {"__longlong_as_double(0x7ff0000000000000ll)",
            "__longlong_as_double(0x7ff8000000000000ll)", "__double_as_longlong",
            "__longlong_as_double"},
    // For long long there is no atomicAdd.
    .atomics = {{{"atomicAdd(($u *)cell, ($u)value)", "atomicAdd(cell, value)"},
                 {"atomicMin(cell, value)", ""},
                 {"atomicMax(cell, value)", ""}}},
    .atomic_load = "*(volatile $u *)cell",
    .compare_exchange = R"(
    const $u found = atomicCAS(cell, *seen, wanted);
    const b8 done = found == *seen;
    *seen = found;
    return done;
)",
    .entry = "extern \"C\" __global__ void",
    .thread = "blockIdx.x * blockDim.x + threadIdx.x",
    .threads = "gridDim.x * blockDim.x",
};

}  // namespace tack::codegen

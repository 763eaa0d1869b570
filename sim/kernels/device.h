/* What CUDA C and HIP C have without any include, for the host. Included before a kernel's source;
   the names that only one of them has are in cuda.h and its like. Everything here is either part of
   the language or in namespace tack_sim, so that what the real compilers lack is missing here. */
#pragma GCC system_header

#include "entry.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

#define assert(condition) \
    ((condition) ? (void)0 : tack_sim::fail("assertion failed: " #condition, __FILE__, __LINE__))
#define __trap() tack_sim::fail("trap", __FILE__, __LINE__)
#define __syncthreads() tack_sim::wait_at_barrier(__LINE__)

typedef decltype(sizeof 0) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
#define NULL __null

/* Vectors. */
#define TACK_SIM_VECTORS(type, name, align2, align4)                                   \
    struct name##1 { type x; };                                                        \
    struct __attribute__((aligned(align2))) name##2 { type x, y; };                    \
    struct name##3 { type x, y, z; };                                                  \
    struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };              \
    static inline name##1 make_##name##1(type x) { return {x}; }                       \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
TACK_SIM_VECTORS(signed char, char, 2, 4)
TACK_SIM_VECTORS(unsigned char, uchar, 2, 4)
TACK_SIM_VECTORS(short, short, 4, 8)
TACK_SIM_VECTORS(unsigned short, ushort, 4, 8)
TACK_SIM_VECTORS(int, int, 8, 16)
TACK_SIM_VECTORS(unsigned, uint, 8, 16)
TACK_SIM_VECTORS(long, long, 16, 16)
TACK_SIM_VECTORS(unsigned long, ulong, 16, 16)
TACK_SIM_VECTORS(long long, longlong, 16, 16)
TACK_SIM_VECTORS(unsigned long long, ulonglong, 16, 16)
TACK_SIM_VECTORS(float, float, 8, 16)
TACK_SIM_VECTORS(double, double, 16, 16)
#undef TACK_SIM_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* The runner's variables. */
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;

/* Memory and text. */
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
void* malloc(size_t) noexcept;
void free(void*) noexcept;
int printf(const char*, ...);
}

namespace tack_sim {
/* GCC's numbers of the memory orders, whose names are macros of the host's. */
constexpr int relaxed = 0, sequential = 5;
}  // namespace tack_sim
static inline void __threadfence() { __atomic_thread_fence(tack_sim::sequential); }
static inline void __threadfence_block() { __atomic_thread_fence(tack_sim::sequential); }
static inline void __threadfence_system() { __atomic_thread_fence(tack_sim::sequential); }

/* Math: name and namef, and the overload of name for float. */
#define TACK_SIM_MATH1(name)                  \
    extern "C" double name(double) noexcept;  \
    extern "C" float name##f(float) noexcept; \
    static inline float name(float x) { return name##f(x); }
#define TACK_SIM_MATH2(name)                         \
    extern "C" double name(double, double) noexcept; \
    extern "C" float name##f(float, float) noexcept; \
    static inline float name(float x, float y) { return name##f(x, y); }
#define TACK_SIM_ALL_MATH1(of)                                                                     \
    of(acos) of(acosh) of(asin) of(asinh) of(atan) of(atanh) of(cbrt) of(ceil) of(cos) of(cosh)    \
        of(erf) of(erfc) of(exp) of(exp10) of(exp2) of(expm1) of(fabs) of(floor) of(lgamma)        \
            of(log) of(log10) of(log1p) of(log2) of(logb) of(nearbyint) of(rint) of(round) of(sin) \
                of(sinh) of(sqrt) of(tan) of(tanh) of(tgamma) of(trunc)
#define TACK_SIM_ALL_MATH2(of)                                                                 \
    of(atan2) of(copysign) of(fdim) of(fmax) of(fmin) of(fmod) of(hypot) of(nextafter) of(pow) \
        of(remainder)
TACK_SIM_ALL_MATH1(TACK_SIM_MATH1)
TACK_SIM_ALL_MATH2(TACK_SIM_MATH2)
#undef TACK_SIM_ALL_MATH1
#undef TACK_SIM_ALL_MATH2
#undef TACK_SIM_MATH1
#undef TACK_SIM_MATH2

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
double remquo(double, double, int*) noexcept;
float remquof(float, float, int*) noexcept;
void sincos(double, double*, double*) noexcept;
void sincosf(float, float*, float*) noexcept;
double nan(const char*) noexcept;
float nanf(const char*) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long lrint(double) noexcept;
long lrintf(float) noexcept;
long lround(double) noexcept;
long lroundf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float frexp(float x, int* exponent) { return frexpf(x, exponent); }
static inline float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
static inline float scalbn(float x, int exponent) { return scalbnf(x, exponent); }
static inline float modf(float x, float* whole) { return modff(x, whole); }
static inline float remquo(float x, float y, int* q) { return remquof(x, y, q); }
static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
static inline int ilogb(float x) { return ilogbf(x); }
static inline long lrint(float x) { return lrintf(x); }
static inline long lround(float x) { return lroundf(x); }
static inline long long llrint(float x) { return llrintf(x); }
static inline long long llround(float x) { return llroundf(x); }
static inline float pow(float x, int n) { return powf(x, (float)n); }
static inline double pow(double x, int n) { return pow(x, (double)n); }
static inline long abs(long x) { return labs(x); }
static inline long long abs(long long x) { return llabs(x); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
static inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline bool isnan(float x) { return x != x; }
static inline bool isnan(double x) { return x != x; }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isinf(double x) { return __builtin_isinf(x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
static inline bool signbit(float x) { return __builtin_signbit(x); }
static inline bool signbit(double x) { return __builtin_signbit(x); }

#define TACK_SIM_MIN_MAX(type, left, right)                                                   \
    static inline type min(left x, right y) { return (type)x < (type)y ? (type)x : (type)y; } \
    static inline type max(left x, right y) { return (type)x > (type)y ? (type)x : (type)y; }
TACK_SIM_MIN_MAX(int, int, int)
TACK_SIM_MIN_MAX(unsigned, unsigned, unsigned)
TACK_SIM_MIN_MAX(unsigned, unsigned, int)
TACK_SIM_MIN_MAX(unsigned, int, unsigned)
TACK_SIM_MIN_MAX(long, long, long)
TACK_SIM_MIN_MAX(unsigned long, unsigned long, unsigned long)
TACK_SIM_MIN_MAX(long long, long long, long long)
TACK_SIM_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
TACK_SIM_MIN_MAX(unsigned long, unsigned long, long)
TACK_SIM_MIN_MAX(unsigned long, long, unsigned long)
TACK_SIM_MIN_MAX(unsigned long long, unsigned long long, long long)
TACK_SIM_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef TACK_SIM_MIN_MAX
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
static inline double min(double x, double y) { return fmin(x, y); }
static inline double max(double x, double y) { return fmax(x, y); }
static inline double min(float x, double y) { return fmin((double)x, (double)y); }
static inline double max(float x, double y) { return fmax((double)x, (double)y); }
static inline double min(double x, float y) { return fmin((double)x, (double)y); }
static inline double max(double x, float y) { return fmax((double)x, (double)y); }

/* Bits. */
#define TACK_SIM_BITS(name, to, from) \
    static inline to name(from x) { return __builtin_bit_cast(to, x); }
TACK_SIM_BITS(__float_as_int, int, float)
TACK_SIM_BITS(__int_as_float, float, int)
TACK_SIM_BITS(__float_as_uint, unsigned, float)
TACK_SIM_BITS(__uint_as_float, float, unsigned)
TACK_SIM_BITS(__double_as_longlong, long long, double)
TACK_SIM_BITS(__longlong_as_double, double, long long)
#undef TACK_SIM_BITS
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(
        (long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned out = 0;
    for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
    return out;
}
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((unsigned long long)x * y >> 32);
}
static inline long long __mul64hi(long long x, long long y) {
    return (long long)((__int128)x * y >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}

/* Conversions: rounded as the suffix says; out of range they give the nearest value, and NaN 0. */
namespace tack_sim {
template <class To, class From>
inline To saturate(From x) {
    constexpr bool is_signed = (To)-1 < 0;
    constexpr int bits = sizeof(To) * 8 - is_signed;
    const From limit = (From)(1ull << (bits - 1)) * 2;
    constexpr To highest = (To)(~0ull >> (64 - bits));
    if (x != x) return 0;
    if (x >= limit) return highest;
    if (is_signed ? x < -limit : x < 0) return is_signed ? (To)(-highest - 1) : (To)0;
    return (To)x;
}
}  // namespace tack_sim
#define TACK_SIM_TO_INTEGER(from_name, from, to_name, to)                                         \
    static inline to __##from_name##2##to_name##_rz(from x) { return tack_sim::saturate<to>(x); } \
    static inline to __##from_name##2##to_name##_rn(from x) {                                     \
        return tack_sim::saturate<to>(rint(x));                                                   \
    }                                                                                             \
    static inline to __##from_name##2##to_name##_rd(from x) {                                     \
        return tack_sim::saturate<to>(floor(x));                                                  \
    }                                                                                             \
    static inline to __##from_name##2##to_name##_ru(from x) {                                     \
        return tack_sim::saturate<to>(ceil(x));                                                   \
    }
TACK_SIM_TO_INTEGER(float, float, int, int)
TACK_SIM_TO_INTEGER(float, float, uint, unsigned)
TACK_SIM_TO_INTEGER(float, float, ll, long long)
TACK_SIM_TO_INTEGER(float, float, ull, unsigned long long)
TACK_SIM_TO_INTEGER(double, double, int, int)
TACK_SIM_TO_INTEGER(double, double, uint, unsigned)
TACK_SIM_TO_INTEGER(double, double, ll, long long)
TACK_SIM_TO_INTEGER(double, double, ull, unsigned long long)
#undef TACK_SIM_TO_INTEGER
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }
static inline float __double2float_rn(double x) { return (float)x; }

/* Operations that are rounded by themselves: the empty assembler text keeps a product from being
   contracted with a sum. */
#define TACK_SIM_ROUNDED(name, type, operation) \
    static inline type name(type x, type y) {   \
        type r = x operation y;                 \
        __asm__("" : "+x"(r));                  \
        return r;                               \
    }
TACK_SIM_ROUNDED(__fadd_rn, float, +)
TACK_SIM_ROUNDED(__fsub_rn, float, -)
TACK_SIM_ROUNDED(__fmul_rn, float, *)
TACK_SIM_ROUNDED(__fdiv_rn, float, /)
TACK_SIM_ROUNDED(__dadd_rn, double, +)
TACK_SIM_ROUNDED(__dsub_rn, double, -)
TACK_SIM_ROUNDED(__dmul_rn, double, *)
TACK_SIM_ROUNDED(__ddiv_rn, double, /)
#undef TACK_SIM_ROUNDED
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline double __drcp_rn(double x) { return 1 / x; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

/* The fast forms, here as exact as the others. */
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __powf(float x, float y) { return powf(x, y); }

/* Atomics: one thread of a device runs at a time, but memory may be shared with another device and
   with the host. */
namespace tack_sim {
template <class T, class Change>
inline T atomic(T* address, Change change) {
    T old, value;
    __atomic_load(address, &old, tack_sim::relaxed);
    do {
        value = change(old);
    } while (!__atomic_compare_exchange(address, &old, &value, false, tack_sim::sequential,
                                        tack_sim::relaxed));
    return old;
}
}  // namespace tack_sim
#define TACK_SIM_ATOMIC(name, type, expression)                                         \
    static inline type name(type* address, type value) {                                \
        return tack_sim::atomic(address, [=](type old) -> type { return expression; }); \
    }
#define TACK_SIM_ATOMIC_CAS(type)                                                                \
    static inline type atomicCAS(type* address, type compare, type value) {                      \
        return tack_sim::atomic(address,                                                         \
                                [=](type old) -> type { return old == compare ? value : old; }); \
    }

/* A kernel's table entries. "%c" gives the symbol, which is the lowered name. */
#define TACK_SIM_SYMBOL_NAME(object)                                                      \
    [] {                                                                                  \
        const char* name;                                                                 \
        __asm__(".pushsection .rodata\n9: .asciz \"%c1\"\n.popsection\nlea 9b(%%rip), %0" \
                : "=r"(name)                                                              \
                : "i"(object));                                                           \
        return name;                                                                      \
    }()
#define TACK_SIM_KERNEL(...)                                         \
    {TACK_SIM_SYMBOL_NAME((void*)(__VA_ARGS__)),                     \
     tack_sim::Kernel<&__VA_ARGS__>::count,                          \
     tack_sim::Kernel<&__VA_ARGS__>::sizes,                          \
     tack_sim::Kernel<&__VA_ARGS__>::invoke<TACK_SIM_USES_BARRIERS>, \
     TACK_SIM_USES_BARRIERS,                                         \
     0}
#define TACK_SIM_VARIABLE(name) {TACK_SIM_SYMBOL_NAME(&name), (void*)&name, sizeof name}
#define TACK_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace tack_sim {
template <int... I>
struct Indices {};
template <auto kernel>
struct Kernel;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Kernel<kernel> {
    static constexpr unsigned count = sizeof...(Parameters);
    static constexpr unsigned sizes[] = {sizeof(Parameters)..., 0};
    template <int... I>
    static inline void call(void* const* parameters, Indices<I...>) {
        kernel(*static_cast<Parameters*>(parameters[I])...);
    }
    static void thread(void* const* parameters) {
        call(parameters, Indices<__integer_pack(sizeof...(Parameters))...>());
    }
    template <bool uses_barriers>
    static void invoke(void* const* parameters, const tack_sim_launch* launch) {
        run_grid(thread, parameters, launch, uses_barriers);
    }
};
}  // namespace tack_sim

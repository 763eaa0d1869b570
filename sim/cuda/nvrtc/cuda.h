/* What CUDA C has beyond kernels/device.h: the types on which NVRTC has atomics, among others. */
#include "../../kernels/device.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 5
#define __LP64__ 1
#define __builtin_assume(condition) ((void)0)

constexpr int warpSize = 32;

template <class T>
static inline T __ldg(const T* address) {
    return *address;
}

TACK_SIM_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)value))
TACK_SIM_ATOMIC(atomicAdd, unsigned, old + value)
TACK_SIM_ATOMIC(atomicAdd, unsigned long long, old + value)
TACK_SIM_ATOMIC(atomicAdd, float, old + value)
TACK_SIM_ATOMIC(atomicAdd, double, old + value)
TACK_SIM_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
TACK_SIM_ATOMIC(atomicSub, unsigned, old - value)
TACK_SIM_ATOMIC(atomicExch, int, value)
TACK_SIM_ATOMIC(atomicExch, unsigned, value)
TACK_SIM_ATOMIC(atomicExch, unsigned long long, value)
TACK_SIM_ATOMIC(atomicExch, float, value)
TACK_SIM_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
TACK_SIM_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#define TACK_SIM_INTEGER_ATOMICS(type)                          \
    TACK_SIM_ATOMIC(atomicMin, type, value < old ? value : old) \
    TACK_SIM_ATOMIC(atomicMax, type, value > old ? value : old) \
    TACK_SIM_ATOMIC(atomicAnd, type, old& value)                \
    TACK_SIM_ATOMIC(atomicOr, type, old | value)                \
    TACK_SIM_ATOMIC(atomicXor, type, old ^ value)
TACK_SIM_INTEGER_ATOMICS(int)
TACK_SIM_INTEGER_ATOMICS(unsigned)
TACK_SIM_INTEGER_ATOMICS(long long)
TACK_SIM_INTEGER_ATOMICS(unsigned long long)
#undef TACK_SIM_INTEGER_ATOMICS
TACK_SIM_ATOMIC_CAS(int)
TACK_SIM_ATOMIC_CAS(unsigned)
TACK_SIM_ATOMIC_CAS(unsigned short)
TACK_SIM_ATOMIC_CAS(unsigned long long)

"""The real NVRTC beside its stand-in: what the one refuses, the other refuses too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_nvrtc

pytestmark = pytest.mark.partner("nvidia")

BUILD = Path(os.environ.get("TACK_BUILD") or Path(__file__).parents[2] / "build")
STAND_IN = BUILD / "sim" / "cuda" / "libnvrtc.so.13"

SAXPY = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

# In a kernel with the parameters (int* i, float* f, double* d, unsigned long long* u).
ACCEPTED = """
    d[0] = sin(f[0]) + sin(d[0]) + pow(f[0], 2) + pow(d[0], 2) + fmod(f[0], f[1])
    i[0] = max(1u, i[0]); d[0] = min(f[0], d[0]); u[0] = min(u[0], 1ll)
    i[0] = isnan(f[0]) + isinf(d[0]) + signbit(f[0]) + isfinite(d[0])
    i[0] = abs(i[0]) + abs((long long)i[0]); f[0] = abs(f[0])
    f[0] = rsqrtf(f[1]) + rsqrt(f[1]) + fmaf(f[0], f[1], f[2]) + fma(f[0], f[1], f[2])
    f[0] = nanf("") + copysignf(f[0], 1) + rintf(f[0]) + __fdividef(f[0], f[1])
    d[0] = nan("") + copysign(d[0], 1.0) + rint(d[0]) + exp10(d[0]) + tgamma(d[0])
    int e; d[0] = frexp(d[0], &e) + ldexp(d[0], 2) + remquo(d[0], 1.0, &e)
    atomicAdd(i, 1); atomicAdd((unsigned*)i, 1u); atomicAdd(u, 1ull); atomicAdd(f, 1.f)
    atomicAdd(d, 1.0); atomicMin((long long*)u, 1ll); atomicMax(u, 1ull); atomicExch(f, 1.f)
    atomicCAS(i, 1, 2); atomicCAS((unsigned short*)i, (unsigned short)1, (unsigned short)2)
    u[0] = __umul64hi(u[0], 3ull) + __clzll(1) + __popc(3u) + __ffs(4) + __brev(1u)
    i[0] = __float2int_rz(f[0]) + __double2uint_rn(d[0]); u[0] = __double2ull_rz(d[0])
    f[0] = __uint_as_float(1u) + __int2float_rn(3) + __fmul_rn(f[0], f[1])
    d[0] = __longlong_as_double(1ll) + __hiloint2double(1, 2)
    __threadfence(); __threadfence_block(); __syncthreads(); f[0] = __ldg(f + 1)
    __shared__ float s[4]; s[threadIdx.x] = 1; __syncthreads(); f[0] = s[0]
    static __shared__ int s[2]; s[0] = 1; i[0] = s[0]
    extern __shared__ double s[]; s[0] = 1; d[0] = s[0]
    extern __shared__ __align__(16) float s[]; s[0] = 1; f[0] = s[0]
    float4 v = make_float4(1, 2, 3, 4); f[0] = v.w; dim3 g(1, 2); i[0] = g.z
    memcpy(f, i, 4); memset(f, 0, 4); assert(i[0] == 0); printf("%d", i[0])
    size_t n = sizeof(long); ptrdiff_t p = f - f; u[0] = n + p
    if (__builtin_expect(i[0] == 0, 1)) __builtin_unreachable()
    auto twice = [](int x) { return 2 * x; }; i[0] = twice(3) + warpSize + gridDim.x
    __attribute__((unused)) int a; [[maybe_unused]] int b
""".strip().splitlines()

REFUSED = """
    int64_t x = 0
    uint32_t x = 0
    uint x = 0
    f[0] = INFINITY
    f[0] = NAN
    i[0] = INT_MAX
    f[0] = std::sin(f[0])
    d[0] = sin(i[0])
    d[0] = sqrt(i[0])
    d[0] = pow(f[0], d[0])
    d[0] = fmax(f[0], d[0])
    u[0] = max(1ull, 2)
    u[0] = min(i[0], 1ll)
    i[0] = isnan(i[0])
    d[0] = __builtin_fmod(d[0], d[0])
    i[0] = __builtin_clz(1)
    f[0] = __builtin_nanf("")
    i[0] = __atomic_fetch_add(i, 1, 0)
    __sync_fetch_and_add(i, 1)
    __asm__ volatile("")
    atomicAdd((long long*)u, 1ll)
    atomicAdd((long*)u, 1l)
    atomicAdd((size_t*)u, (size_t)1)
    atomicAdd((short*)i, (short)1)
    atomicMin(f, 1.f)
    atomicMin((long*)u, 1l)
    atomicExch(d, 1.0)
    atomicCAS((long long*)u, 1ll, 1ll)
    atomicSub(u, 1ull)
    memcmp(f, f, 4)
    __half h
    _Float16 h
    __int128 h
    __float128 h
    thread_local int t
    throw 1
    threadIdx.x = 1
    int v[i[0]]
    int x = ({ 1; })
    int x = i[0] ?: 1
    float2 x = (float2){1, 2}
    int* p = u
    undefined(1)
""".strip().splitlines()


def kernel(body):
    return (
        'extern "C" __global__ void k(int* i, float* f, double* d, unsigned long long* u) {'
        f"{body};}}"
    )


SOURCES_ACCEPTED = [
    "__device__ float f(float x) { return x; } __global__ void k(float* y) { *y = f(*y); }",
    "template <class T> __device__ T f(T x) { return x; }",
    "struct S { int x; __device__ int f() const { return x; } }; enum { A, B }; using I = int;",
    "static const int n = 4; constexpr float h = 0.5f; __constant__ float c[4]; __device__ int v;",
    'extern "C" { __global__ void __launch_bounds__(64) k(int* i) { *i = 1; } }',
    "namespace a { __device__ int f() { return 1; } }",
    "#if __CUDA_ARCH__ < 750 || !defined(__CUDACC_RTC__) || defined(__NVCC__)\n#error\n#endif",
]
SOURCES_REFUSED = [
    "float f(float x) { return x; }",
    "static inline float f(float x) { return x; }",
    "constexpr float f(float x) { return x; }",
    "template <class T> T f(T x) { return x; }",
    "int counter;",
    "static int counter = 1;",
    "__device__ int f(int); __global__ void k(int* i) { *i = f(1); }",
    "#include <cstdint>",
    "#include <cmath>",
    "#include <cuda_fp16.h>",
    '#include "device.h"',
    "#ifdef __x86_64__\n#else\n#error\n#endif",
    "#ifdef __GNUC__\n#else\n#error\n#endif",
    "#ifdef __linux__\n#else\n#error\n#endif",
]

OPTIONS = [
    ["-arch=sm_75"],
    ["--gpu-architecture=sm_121"],
    ["-arch=compute_90"],
    ["-arch=sm_90a"],
    ["-arch=sm_100f"],
    ["-arch", "sm_90"],
    ["-arch=sm_70"],
    ["-arch=sm_91"],
    ["-arch=90"],
    ["-arch sm_90"],
    ["--fmad=false"],
    ["-fmad=true"],
    ["--fmad"],
    ["--fmad=maybe"],
    ["--fmad false"],
    ["--use_fast_math"],
    ["--use_fast_math=true"],
    ["--std=c++17"],
    ["-std=c++20"],
    ["-std", "c++17"],
    ["--std=c++98"],
    ["-DX=1"],
    ["-D X=1"],
    ["-D", "X=1"],
    ["--define-macro=X"],
    ["-default-device"],
    ["--device-as-default-execution-space"],
    ["-lineinfo"],
    ["-G"],
    ["-w"],
    ["-O3"],
    ["-nonsense"],
    ["kernel.cu"],
    [""],
]


@pytest.fixture(scope="module")
def real():
    return real_nvrtc.load()


@pytest.fixture(scope="module")
def stand_in():
    return real_nvrtc.load(STAND_IN)


def result(nvrtc, source, options=("-arch=sm_90",)):
    code, log, _ = real_nvrtc.compile_source(nvrtc, source, list(options))
    return code, log


@pytest.mark.parametrize("source", [*map(kernel, ACCEPTED), *SOURCES_ACCEPTED])
def test_both_accept(real, stand_in, source):
    assert result(real, source) == (0, result(real, source)[1])
    assert result(stand_in, source) == (0, "")


@pytest.mark.parametrize("source", [*map(kernel, REFUSED), *SOURCES_REFUSED])
def test_both_refuse(real, stand_in, source):
    assert result(real, source)[0] == 6
    assert result(stand_in, source)[0] == 6


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_both_answer_alike_to_options(real, stand_in, options):
    expected = result(real, SAXPY, options)[0]
    assert expected in {0, 5}
    assert result(stand_in, SAXPY, options)[0] == expected


def test_both_lower_a_name_alike(real, stand_in):
    source = "template <class T> __global__ void fill(T* x, T value) { *x = value; }"
    for name in ("fill<float>", "fill<unsigned long long>"):
        lowered = [real_nvrtc.lowered_name(nvrtc, source, name) for nvrtc in (real, stand_in)]
        assert lowered[0].startswith("_Z")
        assert lowered[0] == lowered[1]


def write_source(folder, name, source, options=()):
    (folder / f"{name}.cu").write_text(source)
    (folder / f"{name}.options").write_text("".join(f"{option}\n" for option in options))


def test_a_good_source_compiles_for_every_architecture(tmp_path):
    write_source(tmp_path, "good", SAXPY, ["-arch=sm_80", "--fmad=false"])
    assert real_nvrtc.compile_all(tmp_path) == []


def test_a_bad_source_is_reported_with_its_log(tmp_path):
    write_source(tmp_path, "bad", kernel("f[0] = missing"))
    write_source(tmp_path, "good", SAXPY)
    failures = real_nvrtc.compile_all(tmp_path, batch=1)
    assert len(failures) == len(real_nvrtc.ARCHITECTURES)
    assert str(tmp_path / "bad.cu") in failures[0]
    assert "missing" in failures[0]


def test_a_source_is_compiled_once_by_each_nvrtc(tmp_path, monkeypatch):
    write_source(tmp_path, "good", SAXPY)
    assert real_nvrtc.compile_new(tmp_path) == (1, [])
    write_source(tmp_path, "other", SAXPY + "// as well")
    assert real_nvrtc.compile_new(tmp_path) == (1, [])
    assert real_nvrtc.compile_new(tmp_path) == (0, [])
    monkeypatch.setattr(real_nvrtc, "identity", lambda: "another")
    assert real_nvrtc.compile_new(tmp_path) == (2, [])


def test_a_source_that_failed_is_gone_and_accepted_by_none(tmp_path):
    write_source(tmp_path, "bad", kernel("f[0] = missing"))
    count, failures = real_nvrtc.compile_new(tmp_path)
    assert (count, len(failures)) == (1, len(real_nvrtc.ARCHITECTURES))
    assert list(tmp_path.glob("*.cu")) == list(tmp_path.glob("*.accepted")) == []


def test_what_the_stand_in_collects_the_real_compiler_takes(tmp_path):
    program = (
        "import sys, real_nvrtc\n"
        "nvrtc = real_nvrtc.load(sys.argv[1])\n"
        "assert real_nvrtc.compile_source(nvrtc, sys.argv[2], ['-arch=sm_90', '-DN=1'])[0] == 0\n"
    )
    source = SAXPY + "static_assert(N == 1);\n"
    subprocess.run(
        [sys.executable, "-c", program, STAND_IN, source],
        check=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "TACK_SIM_SOURCES": str(tmp_path)},
    )
    assert [path.read_text() for path in tmp_path.glob("*.cu")] == [source]
    assert real_nvrtc.compile_all(tmp_path) == []

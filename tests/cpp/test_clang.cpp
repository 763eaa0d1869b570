#include <dlfcn.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <thread>

#include "backend/cpu/object_loader.hpp"
#include "clang/tack_clang.h"
#include "compiler_support.hpp"

namespace tack::cpu {
namespace {

using tack::testing::function;

struct Answer {
    int status = -1;
    std::string data, log;
};

// The plugin's C functions, without libtack in between.
class Clang : public ::testing::Test {
protected:
    void SetUp() override {
        if (!embedded_toolchain()) GTEST_SKIP() << "built without the embedded compiler";
        handle_ = dlopen(embedded_path().c_str(), RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(handle_, nullptr) << dlerror();
    }
    template <class Function>
    Function* entry(const char* name) const {
        return reinterpret_cast<Function*>(dlsym(handle_, name));
    }
    Answer compile(const std::string& source, std::vector<const char*> features = {},
                   int output = TACK_CLANG_OBJECT, int fast_math = 0,
                   std::vector<tack_clang_vector_function> vector_functions = {}) const {
        tack_clang_request request{};
        request.source = source.data();
        request.source_size = source.size();
        request.name = "kernel.c";
        request.features = features.data();
        request.feature_count = features.size();
        request.fast_math = fast_math;
        request.output = output;
        request.vector_functions = vector_functions.data();
        request.vector_function_count = vector_functions.size();
        tack_clang_result result;
        Answer answer;
        answer.status =
            entry<decltype(tack_clang_compile)>("tack_clang_compile")(&request, &result);
        if (result.data) answer.data.assign(result.data, result.size);
        if (result.log) answer.log = result.log;
        entry<decltype(tack_clang_free)>("tack_clang_free")(&result);
        return answer;
    }

private:
    void* handle_ = nullptr;
};

constexpr const char* simple_source = "int f(int a) { return a + 1; }";
// Fails in the code generator, where LLVM can only end the process.
constexpr const char* fatal_source = "long double f(long double a) { return a + 1; }";

TEST_F(Clang, it_is_of_this_interface_and_of_llvm_22) {
    EXPECT_EQ(entry<decltype(tack_clang_abi)>("tack_clang_abi")(), TACK_CLANG_ABI);
    EXPECT_EQ(std::string(entry<decltype(tack_clang_version)>("tack_clang_version")()).substr(0, 3),
              "22.");
}

TEST_F(Clang, nothing_but_its_entry_points_is_visible_to_other_libraries) {
    FILE* const pipe = popen(("nm -D --defined-only '" + embedded_path() + "'").c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    int symbols = 0;
    for (char line[1000]; std::fgets(line, sizeof line, pipe); ++symbols)
        EXPECT_NE(std::strstr(line, " T tack_clang_"), nullptr) << line;
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(symbols, 4);
}

TEST_F(Clang, an_error_in_the_source_is_reported_with_its_place) {
    const Answer answer = compile("int f(void) {\n    return missing;\n}");
    EXPECT_NE(answer.status, 0);
    EXPECT_EQ(answer.data, "");
    EXPECT_CONTAINS(answer.log, "kernel.c:2:12: error:");
}

TEST_F(Clang, a_source_without_a_final_zero_is_read_to_its_size) {
    const std::string source = std::string(simple_source) + "#error beyond";
    Answer answer = compile(source);
    EXPECT_NE(answer.status, 0);
    answer = compile(source.substr(0, std::strlen(simple_source)));
    EXPECT_EQ(answer.status, 0) << answer.log;
}

TEST_F(Clang, no_file_can_be_included) {
    const Answer answer = compile("#include \"/usr/include/string.h\"\n");
    EXPECT_NE(answer.status, 0);
    EXPECT_CONTAINS(answer.log, "file not found");
}

TEST_F(Clang, a_warning_goes_to_the_log_and_not_to_stderr) {
    ::testing::internal::CaptureStderr();
    const Answer answer = compile("int f(int a) { return a / 0; }");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(answer.status, 0);
    EXPECT_CONTAINS(answer.log, "warning: division by zero");
}

TEST_F(Clang, an_unknown_feature_is_refused_in_the_log_alone) {
    ::testing::internal::CaptureStderr();
    const Answer answer = compile(simple_source, {"+avx9000"});
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_NE(answer.status, 0);
    EXPECT_CONTAINS(answer.log, "unknown target feature '+avx9000'");
}

TEST_F(Clang, a_fatal_error_of_llvm_is_an_error_like_another) {
    ::testing::internal::CaptureStderr();
    const Answer answer = compile(fatal_source, {"-x87"});
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_NE(answer.status, 0);
    EXPECT_CONTAINS(answer.log, "error: ");
    EXPECT_EQ(compile(simple_source).status, 0) << "after the fatal error";
}

TEST_F(Clang, wrong_inline_assembly_is_an_error_of_the_log) {
    ::testing::internal::CaptureStderr();
    const Answer answer = compile("void f(void) { __asm__(\"no such instruction\"); }");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_NE(answer.status, 0);
    EXPECT_CONTAINS(answer.log, "error");
}

// jax-ml/jax#2906
TEST_F(Clang, the_features_and_not_the_model_decide_on_avx512) {
    const std::string source =
        "void f(float* restrict y, const float* restrict x, long n) {"
        "  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] * 2 : y[i];"
        "}"
        "typedef float wide __attribute__((vector_size(64)));"
        "void g(wide* p) { *p += 1; }";
    const auto uses = [&](std::vector<const char*> features, const char* registers) {
        const Answer answer = compile(source, features, TACK_CLANG_ASSEMBLY);
        EXPECT_EQ(answer.status, 0) << answer.log;
        return answer.data.find(registers) != std::string::npos;
    };
    EXPECT_FALSE(uses({"+avx", "+avx2", "+fma"}, "%zmm"));
    EXPECT_FALSE(uses({"+avx", "+avx2", "+fma"}, "%k1"));
    EXPECT_FALSE(uses({}, "%ymm"));
    EXPECT_TRUE(uses({"+avx512f", "+avx512vl"}, "%zmm"));
}

TEST_F(Clang, products_and_sums_are_contracted_in_fast_math_only) {
    const char* const source = "double f(double a, double b, double c) { return a * b + c; }";
    EXPECT_EQ(compile(source, {"+avx", "+fma"}, TACK_CLANG_ASSEMBLY, 0).data.find("vfmadd"),
              std::string::npos);
    EXPECT_CONTAINS(compile(source, {"+avx", "+fma"}, TACK_CLANG_ASSEMBLY, 1).data, "vfmadd");
}

TEST_F(Clang, sums_are_reassociated_in_fast_math_only) {
    const char* const source =
        "float f(const float* p) { float s = 0; for (int i = 0; i < 1024; ++i) s += p[i];"
        " return s; }";
    EXPECT_EQ(compile(source, {}, TACK_CLANG_ASSEMBLY, 0).data.find("addps"), std::string::npos);
    EXPECT_CONTAINS(compile(source, {}, TACK_CLANG_ASSEMBLY, 1).data, "addps");
}

TEST_F(Clang, a_mapped_function_is_called_on_whole_vectors_and_on_the_rest_by_its_own_name) {
    const Answer answer = compile(
        "float tack_sinf(float) __attribute__((const));"
        "void f(float* restrict y, const float* restrict x, long n) {"
        "  for (long i = 0; i < n; ++i) y[i] = tack_sinf(x[i]);"
        "}",
        {"+avx", "+avx2"}, TACK_CLANG_ASSEMBLY, 0,
        {{"tack_sinf", "_ZGVdN8v_sinf", 8, "_ZGV_LLVM_N8v"}});
    EXPECT_EQ(answer.status, 0) << answer.log;
    EXPECT_CONTAINS(answer.data, "_ZGVdN8v_sinf");
    EXPECT_CONTAINS(answer.data, "tack_sinf");
}

// llvm/llvm-project#61289: without SSE4.1, FMA and F16C much is a call.
TEST_F(Clang, code_for_the_plainest_processor_loads_and_runs) {
    const Answer answer = compile(R"(
        double floor(double); double ceil(double); double trunc(double); double rint(double);
        double fma(double, double, double); double roundeven(double); double nearbyint(double);
        float floorf(float); float fmaf(float, float, float); double round(double);
        double f(double a) {
            return floor(a) + ceil(a) * 10 + trunc(a) * 100 + rint(a) * 1000 + round(a) * 1e4 +
                   roundeven(a) * 1e5 + nearbyint(a) * 1e6 + floorf((float)a) * 1e7;
        }
        double g(double a) { return fma(a, a, -6.25) + fmaf((float)a, 2, 1); }
        float h(float a, float b) { return (float)(_Float16)((float)(_Float16)a + b); }
        int bits(unsigned long a) { return __builtin_popcountl(a); }
    )");
    ASSERT_EQ(answer.status, 0) << answer.log;
    const auto module = load_object(answer.data);
    EXPECT_EQ(function<double(double)>(*module, "f")(2.5), 22232232.0);
    EXPECT_EQ(function<double(double)>(*module, "g")(2.5), 6.0);
    EXPECT_EQ(function<float(float, float)>(*module, "h")(2048, 1), 2048);
    EXPECT_EQ(function<int(unsigned long)>(*module, "bits")(255), 8);
}

// triton-lang/triton#4129
TEST_F(Clang, a_compilation_leaves_signals_and_floating_point_modes_alone) {
    const auto state = [] {
        std::string text = std::to_string(_mm_getcsr() & ~0x3fu);  // without the sticky flags
        sigset_t blocked;
        pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        for (int signal = 1; signal < 32; ++signal) {
            struct sigaction action;
            sigaction(signal, nullptr, &action);
            text += " " + std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)) +
                    ":" + std::to_string(action.sa_flags) +
                    (sigismember(&blocked, signal) ? " blocked" : "");
        }
        return text;
    };
    const std::string before = state();
    EXPECT_EQ(compile(simple_source).status, 0);
    EXPECT_NE(compile("int f(").status, 0);
    EXPECT_NE(compile(fatal_source, {"-x87"}).status, 0);
    EXPECT_EQ(state(), before);
}

TEST_F(Clang, deep_nesting_is_compiled_or_refused_on_a_small_stack) {
    const auto sum = [](int terms) {
        std::string text = "a";
        for (int i = 1; i < terms; ++i) text = "(" + text + "+a)";
        return "int f(int a) { return " + text + "; }";
    };
    Answer allowed, refused;
    const auto body = [&] {
        allowed = compile(sum(1000));
        refused = compile(sum(2000));
    };
    const auto start = [](void* argument) -> void* {
        (*static_cast<decltype(body)*>(argument))();
        return nullptr;
    };
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, &attributes, start,
                             const_cast<void*>(static_cast<const void*>(&body))),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_EQ(allowed.status, 0) << allowed.log;
    EXPECT_NE(refused.status, 0);
    EXPECT_CONTAINS(refused.log, "nesting level");
}

TEST_F(Clang, the_callers_floating_point_mode_does_not_change_constants) {
    const char* const source =
        "double sin(double); double f(void) { return sin(1e-310) + 1e-310 * 3; }";
    const Answer usual = compile(source);
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);  // denormals to zero
    const Answer flushed = compile(source);
    _mm_setcsr(mode);
    EXPECT_EQ(usual.status, 0) << usual.log;
    EXPECT_EQ(usual.data, flushed.data);
}

TEST_F(Clang, threads_compile_at_once) {
    std::array<int, 4> right{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 5; ++i) {
                const int value = 100 * t + i;
                const Answer answer =
                    compile("int f(void) { return " + std::to_string(value) + "; }");
                if (answer.status != 0) continue;
                const auto module = load_object(answer.data);
                right[static_cast<std::size_t>(t)] += function<int()>(*module, "f")() == value;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, (std::array<int, 4>{5, 5, 5, 5}));
}

}  // namespace
}  // namespace tack::cpu

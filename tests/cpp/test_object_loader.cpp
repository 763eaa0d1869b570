#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "backend/cpu/object_loader.hpp"
#include "compiler_support.hpp"

namespace tack::cpu {
namespace {

using tack::testing::error_of;
using tack::testing::function;

std::string compile_with(const std::string& compiler, const std::string& source) {
    const auto toolchain = compiler == "embedded" ? embedded_toolchain() : system_toolchain();
    return toolchain->run(source, {}, Output::object);
}

class LoadObject : public ::testing::TestWithParam<std::string> {
protected:
    std::string object(const std::string& source) const { return compile_with(GetParam(), source); }
    detail::Ref<Module> load(const std::string& source) const {
        return load_object(object(source));
    }
};
INSTANTIATE_TEST_SUITE_P(EveryCompiler, LoadObject, ::testing::ValuesIn(tack::testing::compilers()),
                         [](const auto& each) { return each.param; });

// Code, jump tables, constants, writable data, addresses in data and calls of libm.
constexpr const char* varied_source = R"(
    double sin(double); double pow(double, double); float cosf(float);
    static int calls = 40;
    static const double weights[5] = {0.5, 1.5, 2.5, 3.5, 4.5};
    static double add(double a) { return a + 1; }
    static double scale(double a) { return a * 2; }
    static double (*steps[])(double) = {add, scale, sin};
    static int zeros[1000];
    int count(void) { return ++calls; }
    int* cell(long i) { return zeros + i; }
    double weight(long i) { return weights[i]; }
    double step(long i, double a) { return steps[i](a); }
    double far(double a, double b) { return sin(a) + pow(a, b) + cosf((float)a); }
    double choose(int which, double a) {
        switch (which) {
            case 0: return a + 1;
            case 1: return a * a;
            case 2: return sin(a);
            case 3: return pow(a, 3.25);
            case 4: return 7 / a;
            case 5: return a - weights[2];
            case 6: return -a;
            default: return 0;
        }
    })";

TEST_P(LoadObject, code_reads_and_writes_its_own_data) {
    const auto module = load(varied_source);
    EXPECT_EQ(function<int()>(*module, "count")(), 41);
    EXPECT_EQ(function<int()>(*module, "count")(), 42);
    EXPECT_EQ(function<double(long)>(*module, "weight")(3), 3.5);
    int* const last = function<int*(long)>(*module, "cell")(999);
    EXPECT_EQ(*last, 0);
    *last = 5;
    EXPECT_EQ(*function<int*(long)>(*module, "cell")(999), 5);
}

TEST_P(LoadObject, addresses_in_data_are_relocated) {
    const auto module = load(varied_source);
    auto* const step = function<double(long, double)>(*module, "step");
    EXPECT_EQ(step(0, 3), 4);
    EXPECT_EQ(step(1, 3), 6);
    EXPECT_EQ(step(2, 3), std::sin(3.0));
}

TEST_P(LoadObject, a_switch_takes_each_of_its_branches) {
    const auto module = load(varied_source);
    auto* const choose = function<double(int, double)>(*module, "choose");
    const double expected[] = {4.0, 9.0, std::sin(3.0), std::pow(3.0, 3.25), 7.0 / 3, 0.5, -3.0, 0};
    for (int which = 0; which < 8; ++which) EXPECT_EQ(choose(which, 3), expected[which]) << which;
}

// numba/numba#9001
TEST_P(LoadObject, code_more_than_two_gigabytes_from_libm_calls_it) {
    const auto libm = reinterpret_cast<std::intptr_t>(static_cast<double (*)(double)>(std::sin));
    constexpr std::intptr_t reach = std::intptr_t{1} << 31;
    // Takes all room near libm for an object that is almost as large as one block.
    constexpr std::size_t block_size = std::size_t{1} << 28;
    std::vector<void*> blocks;
    do {
        blocks.push_back(mmap(nullptr, block_size, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        ASSERT_NE(blocks.back(), MAP_FAILED);
    } while (std::abs(reinterpret_cast<std::intptr_t>(blocks.back()) - libm) < 2 * reach);
    const auto module = load(std::string(varied_source) +
                             "static char large[250000000]; char* keep(void) { return large; }");
    auto* const far = function<double(double, double)>(*module, "far");
    EXPECT_GT(std::abs(reinterpret_cast<std::intptr_t>(far) - libm), reach);
    EXPECT_EQ(far(2, 3), std::sin(2.0) + std::pow(2.0, 3.0) + std::cos(2.0f));
    for (void* block : blocks) munmap(block, block_size);
}

TEST_P(LoadObject, a_symbol_outside_the_table_is_an_error_that_names_it) {
    const std::string what =
        error_of([&] { load("int getpid(void); int f(void) { return getpid(); }"); });
    EXPECT_CONTAINS(what, "'getpid'");
}

TEST_P(LoadObject, thread_local_variables_are_refused) {
    const std::string what =
        error_of([&] { load("static __thread int x; int f(int a) { x += a; return x; }"); });
    EXPECT_CONTAINS(what, "thread-local");
}

TEST_P(LoadObject, a_constructor_is_refused_rather_than_not_run) {
    EXPECT_CONTAINS(
        error_of([&] {
            load(
                "static volatile int x; __attribute__((constructor)) void f(void) { x = 1; }"
                "int g(void) { return x; }");
        }),
        "constructors");
}

TEST_P(LoadObject, a_function_that_is_not_there_is_an_error_that_names_it) {
    const auto module = load("static int hidden(void) { return 1; } int f(void) { return 2; }");
    EXPECT_EQ(function<int()>(*module, "f")(), 2);
    EXPECT_CONTAINS(error_of([&] { module->symbol("hidden"); }), "'hidden'");
}

std::string permissions_at(const void* address) {
    std::istringstream maps(tack::testing::read_whole("/proc/self/maps"));
    for (std::string line; std::getline(maps, line);) {
        unsigned long first = 0, end = 0;
        char permissions[5] = "";
        std::sscanf(line.c_str(), "%lx-%lx %4s", &first, &end, permissions);
        const auto at = reinterpret_cast<unsigned long>(address);
        if (first <= at && at < end) return permissions;
    }
    return {};
}

TEST_P(LoadObject, no_page_is_writable_and_executable) {
    const auto module = load(varied_source);
    EXPECT_EQ(permissions_at(module->symbol("count")), "r-xp");
    EXPECT_EQ(permissions_at(function<int*(long)>(*module, "cell")(0)), "rw-p");
}

TEST_P(LoadObject, code_is_unmapped_with_the_last_reference) {
    auto module = load(varied_source);
    auto second = module;
    void* const address = module->symbol("count");
    module = nullptr;
    EXPECT_EQ(permissions_at(address), "r-xp");
    second = nullptr;
    EXPECT_NE(permissions_at(address), "r-xp");
}

TEST_P(LoadObject, the_object_may_lie_at_any_address) {
    const std::string shifted = "x" + object("int f(void) { return 3; }");
    const auto module = load_object(std::string_view(shifted).substr(1));
    EXPECT_EQ(function<int()>(*module, "f")(), 3);
}

TEST_P(LoadObject, an_object_cut_at_any_length_is_an_error) {
    const std::string whole = object(varied_source);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const std::string cut = whole.substr(0, length);  // so that ASan sees its end
        EXPECT_THROW(load_object(cut), Error) << length;
    }
}

TEST_P(LoadObject, random_damage_is_an_error_or_loads) {
    const std::string whole = object(varied_source);
    std::mt19937 random(1);
    int refused = 0, loaded = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        std::string damaged = whole;
        // The tables that matter are small beside the code: half of the damage is at the end.
        const std::size_t from = trial % 2 ? 0 : whole.size() - whole.size() / 3;
        for (int change = 0; change < 1 + trial % 4; ++change)
            damaged[from + random() % (whole.size() - from)] = static_cast<char>(random());
        error_of([&] { load_object(damaged); }).empty() ? ++loaded : ++refused;
    }
    EXPECT_GT(refused, 1000);
    EXPECT_GT(loaded, 100);
}

// Calls `change(relocation)` on the first relocation of a loaded section.
template <class Change>
std::string change_relocation(std::string object, Change change) {
    Elf64_Ehdr header;
    std::memcpy(&header, object.data(), sizeof header);
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    std::memcpy(sections.data(), object.data() + header.e_shoff,
                header.e_shnum * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& section : sections) {
        if (section.sh_type != SHT_RELA || !(sections[section.sh_info].sh_flags & SHF_EXECINSTR))
            continue;
        Elf64_Rela relocation;
        std::memcpy(&relocation, object.data() + section.sh_offset, sizeof relocation);
        change(relocation);
        std::memcpy(object.data() + section.sh_offset, &relocation, sizeof relocation);
        return object;
    }
    ADD_FAILURE() << "the object has no relocation";
    return object;
}

TEST_P(LoadObject, an_absolute_32_bit_relocation_is_refused_by_its_number) {
    const std::string changed = change_relocation(object(varied_source), [](Elf64_Rela& r) {
        r.r_info = ELF64_R_INFO(ELF64_R_SYM(r.r_info), R_X86_64_32S);
    });
    EXPECT_CONTAINS(error_of([&] { load_object(changed); }), "relocation of type 11");
}

TEST_P(LoadObject, a_relocation_beyond_its_section_is_refused) {
    const std::string changed = change_relocation(
        object(varied_source), [](Elf64_Rela& r) { r.r_offset = ~std::uint64_t{0} - 1; });
    EXPECT_CONTAINS(error_of([&] { load_object(changed); }), "outside its section");
}

TEST_P(LoadObject, an_addend_out_of_reach_is_refused) {
    const std::string changed = change_relocation(
        object(varied_source), [](Elf64_Rela& r) { r.r_addend = std::int64_t{1} << 40; });
    EXPECT_CONTAINS(error_of([&] { load_object(changed); }), "out of reach");
}

// llvm/llvm-project#61289
TEST_P(LoadObject, every_symbol_of_the_table_resolves_to_its_address) {
    std::string source;
    int number = 0;
    for (const ExternalSymbol& symbol : external_symbols()) {
        const std::string n = std::to_string(number++);
        source += "extern char s" + n + " __asm__(\"" + std::string(symbol.name) +
                  "\"); const void* f" + n + "(void) { return &s" + n + "; }\n";
    }
    const auto module = load(source);
    number = 0;
    for (const ExternalSymbol& symbol : external_symbols()) {
        const std::string name = "f" + std::to_string(number++);
        EXPECT_NE(symbol.address, nullptr) << symbol.name;
        EXPECT_EQ(function<void*()>(*module, name.c_str())(), symbol.address) << symbol.name;
    }
}

// llvm/llvm-project#61289
TEST_P(LoadObject, every_math_function_can_be_called_in_both_precisions) {
    const char* const unary[] = {"acos",  "acosh", "asin",   "asinh",  "atan", "atanh", "cbrt",
                                 "ceil",  "cos",   "cosh",   "erf",    "erfc", "exp",   "exp2",
                                 "expm1", "floor", "tgamma", "lgamma", "log",  "log10", "log1p",
                                 "log2",  "sin",   "sinh",   "sqrt",   "tan",  "tanh",  "trunc"};
    std::string source;
    for (const std::string name : unary)
        source += "double d_" + name + "(double a) { return __builtin_" + name + "(a); }\n" +
                  "float f_" + name + "(float a) { return __builtin_" + name + "f(a); }\n";
    for (const std::string name : {"atan2", "copysign", "fmod", "hypot", "pow"})
        source += "double d_" + name + "(double a) { return __builtin_" + name + "(a, 0.75); }\n" +
                  "float f_" + name + "(float a) { return __builtin_" + name + "f(a, 0.75f); }\n";
    const auto module = load(source);
    for (const char* name : unary) {
        const double argument = std::string(name) == "acosh" ? 1.5 : 0.5;
        const double wide =
            function<double(double)>(*module, ("d_" + std::string(name)).c_str())(argument);
        const float narrow = function<float(float)>(
            *module, ("f_" + std::string(name)).c_str())(static_cast<float>(argument));
        EXPECT_NEAR(wide, narrow, 1e-6) << name;
    }
    EXPECT_EQ(function<double(double)>(*module, "d_erf")(0.5), std::erf(0.5));
    EXPECT_EQ(function<double(double)>(*module, "d_hypot")(1.0), 1.25);
    EXPECT_EQ(function<float(float)>(*module, "f_fmod")(1.0f), 0.25f);
}

// llvm/llvm-project#61289
TEST_P(LoadObject, calls_that_the_compiler_makes_of_its_own_accord_resolve) {
    const auto module = load(R"(
        double sin(double); double cos(double); float sinf(float); float cosf(float);
        double pow(double, double); unsigned long strlen(const char*);
        struct Large { char bytes[5000]; };
        void fill(char* p, long n) { for (long i = 0; i < n; ++i) p[i] = 3; }
        void copy(char* restrict p, const char* restrict q, long n) {
            for (long i = 0; i < n; ++i) p[i] = q[i];
        }
        void move(struct Large* p, struct Large* q) { *p = *q; }
        int same(const char* p, const char* q, long n) { return __builtin_memcmp(p, q, n) == 0; }
        double both(double a) { return sin(a) * 2 + cos(a); }
        float bothf(float a) { return sinf(a) * 2 + cosf(a); }
        double power(double a, int n) { return __builtin_powi(a, n); }
        double two_to(double a) { return pow(2.0, a); }
        typedef __int128 i128;
        void divide(i128* p) { p[0] = p[0] / p[1]; }
        double widen(i128* p) { return (double)p[0]; }
        float half(double a) { return (float)(_Float16)a; }
    )");
    std::vector<char> bytes(9000, 1), other(9000, 2);
    function<void(char*, long)>(*module, "fill")(bytes.data(), 9000);
    EXPECT_EQ(bytes, std::vector<char>(9000, 3));
    function<void(char*, const char*, long)>(*module, "copy")(bytes.data(), other.data(), 9000);
    EXPECT_EQ(bytes, other);
    EXPECT_TRUE(
        function<int(char*, char*, long)>(*module, "same")(bytes.data(), other.data(), 9000));
    EXPECT_EQ(function<double(double)>(*module, "both")(1), std::sin(1.0) * 2 + std::cos(1.0));
    EXPECT_EQ(function<float(float)>(*module, "bothf")(1), std::sin(1.0f) * 2 + std::cos(1.0f));
    EXPECT_EQ(function<double(double, int)>(*module, "power")(1.5, 3), 3.375);
    EXPECT_EQ(function<double(double)>(*module, "two_to")(0.5), std::exp2(0.5));
    __extension__ __int128 wide[2] = {7000000000000000000, 1000};
    wide[0] *= 1000;
    function<void(void*)>(*module, "divide")(wide);
    EXPECT_EQ(function<double(void*)>(*module, "widen")(wide), 7e18);
    EXPECT_EQ(function<float(double)>(*module, "half")(1.0 / 3), 0.333251953125f);
}

TEST(LoadObject, what_is_no_object_is_refused) {
    EXPECT_THROW(load_object(""), Error);
    EXPECT_CONTAINS(error_of([] { load_object(std::string(1000, 'x')); }),
                    "not a relocatable ELF object");
}

}  // namespace
}  // namespace tack::cpu

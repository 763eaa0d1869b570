// Every call of the CUDA driver fails once: in each scenario the calls are recorded, then each
// entry point's first, second and last call fails, in a process of its own. An error names the
// entry point, the driver's name and text for the result, and what Tack was doing on which memory.
#include <algorithm>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "cuda_client.hpp"
#include "tack/dlpack.hpp"

namespace tack::test {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

void require(bool holds, const char* what) {
    if (!holds) throw std::runtime_error(std::string("wrong result: ") + what);
}

Kernel make_scale(kernel::Options options = {}) {
    return Kernel(
        "scale",
        [](Scalar<float> a, In<float> x, Out<float> y) {
            parallel(x.size(), [&](Index i) { y[i] = a * x[i]; });
        },
        options);
}

/// What a scenario has before its calls are to fail.
struct World {
    Device device;
    Array x, y;
    ExportedMemory exported;
    Handle stream = nullptr;
};

struct Scenario {
    const char* name;
    std::function<void(World&)> prepare;
    std::function<void(World&)> act;      // may be repeated
    const char* library = TACK_SIM_CUDA;  // whose calls are to fail
};

void start(World& world) { world.device = device("cuda"); }

void start_with_arrays(World& world) {
    start(world);
    world.x = from_vector(std::vector<float>{1, 2, 3, 4}, world.device);
    world.y = zeros({4}, DType::float32, world.device);
    world.device.synchronize();
}

void allocate(World& world) {
    const Array words = full({1000}, 3, DType::int16, world.device);
    const Array doubles = full({1000}, 0.1, DType::float64, world.device);
    const Array bytes = zeros({1000}, DType::uint8, world.device);
    require(words.to_vector<std::int16_t>().back() == 3, "int16");
    require(doubles.to_vector<double>().back() == 0.1, "float64");
    require(bytes.to_vector<std::uint8_t>().back() == 0, "uint8");
}

void allocate_exportable(World& world) {
    const Array z = empty({1000}, DType::float32, world.device, true);
    require(z.ptr() != nullptr, "exportable");
}

void copy(World& world) {
    Array copied = world.x.copy();
    const float other[] = {5, 6, 7, 8};
    copied.write(other, sizeof other);
    require(copied.to_device("cpu").to_vector<float>().back() == 8, "to_device");
    require(world.x.to_vector<float>().front() == 1, "read");
}

void launch(World& world) {
    const Kernel scale = make_scale();
    scale(2.0f, world.x, world.y);
    scale(3.0f, world.x, world.y);
    require(world.y.to_vector<float>().back() == 12, "launch");
}

/// Where nothing is kept, on disk or otherwise.
void compile(World& world) {
    launch(world);
    require(make_scale().inspect(kernel::Inspect::assembly, 2.0f, world.x, world.y).size() > 10,
            "assembly");
}

void launch_with_bounds(World& world) {
    const Kernel scale = make_scale({.check_bounds = true});
    scale(2.0f, world.x, world.y);
    require(world.y.to_vector<float>().back() == 8, "launch with bounds");
}

void export_by_dlpack(World& world) {
    Array z = world.x.copy();
    dlpack::ManagedTensorVersioned* const tensor = to_dlpack_versioned(z);
    Array imported;
    try {
        imported = from_dlpack(tensor, world.device);
    } catch (const Error&) {
        tensor->deleter(tensor);
        throw;
    }
    const Kernel scale = make_scale();
    scale(2.0f, imported, world.y);
    require(world.y.to_vector<float>().back() == 8, "import");
}

void wrap(World& world) {
    require(world.device.memory_space(world.x.ptr()).kind == MemoryKind::device, "memory_space");
    Array wrapped = array_from_ptr(world.x.ptr(), DType::float32, {4}, world.device, false);
    require(wrapped.to_vector<float>().back() == 4, "array_from_ptr");
}

void export_memory_as_copy(World& world) {
    Array z = world.x.copy();
    const ExportedMemory first = export_memory(z);
    require(first.size == 16 && first.handle == export_memory(z).handle, "export_memory");
}

void import_exported(World& world) {
    const Array z = import_memory(world.exported, DType::float32, {4}, world.device);
    require(z.to_vector<float>().back() == 4, "import_memory");
}

void meet_on_two_streams(World& world) {
    const Device theirs =
        device("cuda", 0, {{"stream", reinterpret_cast<std::uintptr_t>(world.stream)}});
    Array z = zeros({4}, DType::float32, theirs);
    const Kernel scale = make_scale();
    scale(2.0f, world.x, z);
    theirs.wait_for_stream(0);
    require(z.to_vector<float>().back() == 8, "two streams");
}

void copy_to_second_device(World& world) {
    const Array far = world.x.to_device(device("cuda:1"));
    require(far.to_vector<float>().back() == 4, "second device");
}

void describe(World&) {
    for (const BackendStatus& row : backend_status())
        if (row.name == "cuda" && row.state != "ready") throw Error(ErrorKind::runtime, row.detail);
}

const Scenario scenarios[] = {
    {"start", [](World&) {}, start},
    {"status", [](World&) {}, describe},
    {"allocate", start, allocate},
    {"allocate_exportable", start, allocate_exportable},
    {"copy", start_with_arrays, copy},
    {"launch", start_with_arrays, launch},
    {"compile", start_with_arrays, compile, TACK_SIM_NVRTC},
    {"launch_with_bounds", start_with_arrays, launch_with_bounds},
    {"export_and_import_by_dlpack", start_with_arrays, export_by_dlpack},
    {"wrap", start_with_arrays, wrap},
    {"export_memory", start_with_arrays, export_memory_as_copy},
    {"import_memory",
     [](World& world) {
         start(world);
         world.x = empty({4}, DType::float32, world.device, true);
         const float values[] = {1, 2, 3, 4};
         world.x.write(values, sizeof values);
         world.exported = export_memory(world.x);
     },
     import_exported},
    {"two_streams",
     [](World& world) {
         start_with_arrays(world);
         Handle context = nullptr;
         CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
         CLIENT_CHECK(cu::context_push(context) == cuda_success);
         CLIENT_CHECK(cu::stream_create(&world.stream, 1u) == cuda_success);
         CLIENT_CHECK(cu::context_pop(&context) == cuda_success);
         meet_on_two_streams(world);
     },
     meet_on_two_streams},
    {"two_devices",
     [](World& world) {
         start_with_arrays(world);
         copy_to_second_device(world);
     },
     copy_to_second_device},
};

struct Mode {
    const char* name;
    Environment environment;
};
const Mode modes[] = {
    {"with_pools", {}},
    {"without_pools", {{"TACK_SIM_NO_POOLS", "1"}}},
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

using Counts = std::map<std::string, int>;

/// "name count" a line.
Counts counts_of(const std::vector<std::string>& lines) {
    Counts counts;
    for (const std::string& line : lines) {
        const size_t space = line.rfind(' ');
        counts[line.substr(0, space)] += std::stoi(line.substr(space + 1));
    }
    return counts;
}

/// The scenario twice, the first time with this call failing. A line for the error, which may be
/// empty, one for the violations, one for the number of calls that failed, then the kinds of what
/// is alive, each with its number.
std::string act_with_failure(const Scenario& scenario, const std::string& failure) {
    auto& world = *new World;
    scenario.prepare(world);
    const Control control{dlopen(scenario.library, RTLD_NOW)};
    control.reset_counts();
    control.fail(failure);
    std::string said;
    try {
        scenario.act(world);
    } catch (const Error& error) {
        said = error.what();
    }
    const auto failed = control.call<std::uint64_t>("tack_sim_failed_count");
    control.fail("");
    scenario.act(world);
    if (world.device) world.device.synchronize();
    std::string violations = sim_text("tack_sim_violations");
    for (std::string* const text : {&said, &violations})
        std::replace(text->begin(), text->end(), '\n', ' ');
    std::string alive;
    for (const std::string& line : lines_of(sim_text("tack_sim_live_objects")))
        alive += line.substr(0, line.find(" 0x")) + " 1\n";
    return said + "\n" + violations + "\n" + std::to_string(failed) + "\n" + alive;
}

/// The calls of the scenario when nothing fails, by entry point.
Counts record(const Scenario& scenario, const Environment& environment) {
    const Told told = run_tack(
        [&] {
            auto& world = *new World;
            scenario.prepare(world);
            const Control control{dlopen(scenario.library, RTLD_NOW)};
            control.reset_counts();
            scenario.act(world);
            return control.text("tack_sim_calls");
        },
        environment);
    EXPECT_EQ(told.status, 0) << scenario.name;
    return counts_of(lines_of(told.text));
}

/// What the text of an error begins with, where a call of these entry points failed: what Tack was
/// doing, on how many bytes of which device where memory is concerned.
const struct {
    const char* entries;  // a regular expression, as are the words
    const char* words;
} operations[] = {
    {"cuInit", "CUDA driver 13\\.0 at .*/libcuda\\.so\\.1"},
    {"cuDeviceGetCount", "counting CUDA devices"},
    {"cuDeviceGet", "device: cuda:0"},
    {"cuDeviceGetAttribute", "device: attribute \\d+ of cuda:[01]"},
    {"cuDevicePrimaryCtxRetain", "device: retaining the primary context of cuda:0"},
    {"cuStreamCreate", "device: making the stream of cuda:0"},
    {"cuStreamGetCtx",
     "(device: option 'stream' \\d+ of|wait_for_stream: ordering) cuda:0( after stream \\d+)?"},
    {"cuCtxPushCurrent_v2", "making the context of cuda:[01] current"},
    {"cuMemAlloc_v2|cuMemAllocFromPoolAsync",
     "allocating \\d+ bytes on cuda:[01], which has \\d+ of \\d+ bytes free"},
    {"cuMemset.*", "filling \\d+ bytes of cuda:0"},
    {"cuMemcpyDtoHAsync_v2", "reading \\d+ bytes of cuda:[01]"},
    {"cuMemcpyHtoDAsync_v2", "writing \\d+ bytes of cuda:[01]"},
    {"cuMemcpyDtoDAsync_v2", "(copying|filling) \\d+ bytes of cuda:0"},
    {"cuPointerGetAttributes", "(memory_space|array_from_ptr|from_dlpack): address \\d+"},
    {"cuModuleLoadDataEx|cuModuleGetFunction|cuFuncGetAttribute", "loading kernel scale on cuda:0"},
    {"cuLaunchKernel", "launching scale on cuda:0 with 1 blocks of 256 threads"},
    {"cuStreamSynchronize", "waiting for the work of cuda:[01]( \\(queued last: scale\\))?"},
    {"cuEventCreate|cuEventRecord|cuStreamWaitEvent",
     "wait_for_stream: ordering cuda:0 after stream \\d+"},
    {"cuMemGetAllocationGranularity|cuMemCreate",
     "(empty: exportable 4000 bytes on|export_memory: copy of 16 bytes of) cuda:0"},
    {"cuMemAddressReserve|cuMemMap|cuMemSetAccess",
     "(empty: exportable 4000 bytes on|export_memory: copy of 16 bytes of|"
     "import_memory: posix_fd \\d+ on) cuda:0"},
    {"cuMemExportToShareableHandle", "export_memory: 16 bytes of cuda:0"},
    {"cuMemImportFromShareableHandle", "import_memory: posix_fd \\d+ on cuda:0"},
    {"cuDeviceGetUuid_v2", "(export|import)_memory: UUID of cuda:0"},
    {"nvrtcVersion|nvrtcGetNumSupportedArchs|nvrtcGetSupportedArchs", "starting NVRTC"},
    {"nvrtcCreateProgram|nvrtcCompileProgram", "compiling a CUDA kernel"},
    {"nvrtcGet(CUBIN|PTX)(Size)?", "reading what NVRTC made"},
};

/// The whole text where this entry point failed, as a regular expression.
std::string expected_text(const std::string& entry) {
    // A function that cannot be looked up is missing, whatever the reason.
    if (entry.starts_with("cuGetProcAddress"))
        return "cu\\w+ is not in .*/libcuda\\.so\\.1 \\(CUDA \\d+\\.\\d\\); without it there is no "
               ".*";
    for (const auto& row : operations) {
        if (!std::regex_match(entry, std::regex(row.entries))) continue;
        return std::string(row.words) + ": " + entry +
               (entry.starts_with("nvrtc")
                    ? " of NVRTC \\d+\\.\\d+ at .*/libnvrtc\\.so\\.13 gave error 11"
                    : " gave CUDA_ERROR_UNKNOWN \\(999, unknown\\)");
    }
    return "an entry point with a row in the table of operations";
}

enum class Calls { any, last };

/// Where Tack may go on in silence. Everywhere else a call that fails is an error.
const struct {
    const char* entries;
    Calls calls;
    const char* scenarios;
    const char* reason;
} silent[] = {
    {"cuDriverGetVersion", Calls::any, "start|status", "it is for texts alone"},
    {"cuDeviceGetName|cuDeviceTotalMem_v2", Calls::any, "status", "they are for texts alone"},
    {"cuMemPoolCreate|cuMemPoolSetAttribute", Calls::any, ".*", "there is plain memory"},
    {"cuCtxGetCurrent", Calls::any, ".*", "the context is made current once more"},
    {"cuCtxGetId|cuDevicePrimaryCtxGetState|cuDevicePrimaryCtxRelease_v2", Calls::any, ".*",
     "a context that is known counts as another, or is retained once too often"},
    {"cuCtxPopCurrent_v2", Calls::any, ".*", "it undoes, also where something else has failed"},
    {"cuStreamQuery", Calls::any, ".*", "the stream counts as busy"},
    {"cuEventCreate|cuEventRecord|cuStreamWaitEvent|cuStreamGetCtx", Calls::any, "two_streams",
     "the queue that cannot wait by an event finds the work done"},
    {"cuMemFree_v2|cuMemFreeAsync|cuMemUnmap|cuMemRelease|cuMemAddressFree|cuMemPoolDestroy|"
     "cuEventDestroy_v2|cuModuleUnload|nvrtcDestroyProgram",
     Calls::any, ".*", "it lets something go"},
    {"cuCtxSynchronize", Calls::any, ".*", "it comes before code is let go"},
    {"cuCtxPushCurrent_v2", Calls::last, ".*", "it comes before something is let go"},
    {"cuStreamSynchronize", Calls::last,
     "two_streams|allocate_exportable|export_memory|import_memory",
     "it comes before memory is let go"},
};

bool may_be_silent(const Scenario& scenario, const std::string& entry, bool is_last) {
    return std::any_of(std::begin(silent), std::end(silent), [&](const auto& row) {
        return (row.calls == Calls::any || is_last) &&
               std::regex_match(entry, std::regex(row.entries)) &&
               std::regex_match(scenario.name, std::regex(row.scenarios));
    });
}

/// How many objects stay where a call fails that lets something go, or may be on the way to that.
int may_stay(const std::string& entry) {
    if (entry == "cuMemUnmap") return 2;  // the mapping and its addresses
    if (entry == "cuStreamQuery")
        return 2;  // memory for a later moment, and the event it waits for
    for (const char* word : {"Free", "Destroy", "Unmap", "Release", "Unload", "PushCurrent"})
        if (entry.find(word) != entry.npos) return 1;
    return 0;
}

struct Outcome {
    std::string said, violations;
    Counts alive;
    int failed = 0;  // calls

    explicit Outcome(const Told& told) {
        std::vector<std::string> lines = lines_of(told.text);
        if (lines.size() < 3) return;
        said = lines[0];
        violations = lines[1];
        failed = std::stoi(lines[2]);
        alive = counts_of({lines.begin() + 3, lines.end()});
    }
    /// Objects more than in the other.
    int beyond(const Outcome& other) const {
        int more = 0;
        for (const auto& [kind, count] : alive) {
            const auto found = other.alive.find(kind);
            more += std::max(0, count - (found == other.alive.end() ? 0 : found->second));
        }
        return more;
    }
};

/// Calls try_one(entry, call, is_last) for each entry point's first, second and last call. Gives
/// the number of calls.
template <class Function>
int for_each_call(const Counts& calls, const Function& try_one) {
    int cases = 0;
    for (const auto& [entry, count] : calls) {
        for (const int call : std::set<int>{1, std::min(2, count), count}) {
            SCOPED_TRACE(entry + ":" + std::to_string(call));
            try_one(entry, call, call == count);
            ++cases;
        }
    }
    return cases;
}

/// tools/test.sh adds these lines up.
void report(const char* scenario, const Mode& mode, int cases, size_t entries, int errors) {
    printf("Failed in turn: %d calls of %zu entry points in %s, %s; errors: %d\n", cases, entries,
           scenario, mode.name, errors);
}

Environment environment_of(const Mode& mode) {
    Environment environment = mode.environment;
    environment.emplace_back("TACK_SIM_DEVICES", "2");
    environment.emplace_back("TACK_SIM_KEEP", "");
    return environment;
}

class EveryCall : public testing::TestWithParam<std::tuple<Scenario, Mode>> {};

TEST_P(EveryCall, that_fails_is_a_clear_error_or_none_and_the_next_one_works) {
    const auto& [scenario, mode] = GetParam();
    Environment environment = environment_of(mode);
    if (scenario.library == std::string_view(TACK_SIM_NVRTC)) {
        for (const char* folder : {"TACK_CACHE_DIR", "XDG_CACHE_HOME", "HOME"})
            environment.emplace_back(folder, "");
    }
    const auto run = [&, &chosen = scenario](const std::string& failure) {
        return run_tack([&] { return act_with_failure(chosen, failure); }, environment);
    };
    const Outcome whole(run(""));
    ASSERT_EQ(whole.said + whole.violations, "");
    const Counts calls = record(scenario, environment);
    int errors = 0;
    const int cases = for_each_call(
        calls, [&, &chosen = scenario](const std::string& entry, int call, bool is_last) {
            const Told told = run(entry + ":" + std::to_string(call));
            ASSERT_EQ(told.status, 0) << "signal " << told.signal;
            const Outcome outcome(told);
            EXPECT_EQ(outcome.failed, 1);
            if (outcome.said.empty()) {
                EXPECT_TRUE(may_be_silent(chosen, entry, is_last)) << "no error";
            } else {
                ++errors;
                const std::string expected = expected_text(entry);
                EXPECT_TRUE(std::regex_match(outcome.said, std::regex(expected)))
                    << outcome.said << "\nis not\n"
                    << expected;
            }
            EXPECT_EQ(outcome.violations, "") << outcome.said;
            EXPECT_LE(outcome.beyond(whole), may_stay(entry)) << told.text;
        });
    EXPECT_GT(cases, 0);
    report(scenario.name, mode, cases, calls.size(), errors);
}

INSTANTIATE_TEST_SUITE_P(OfTheDriver, EveryCall,
                         testing::Combine(testing::ValuesIn(scenarios), testing::ValuesIn(modes)),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param).name) + "_" +
                                    std::get<1>(test.param).name;
                         });

// The end of a process

/// What a process may have alive at its end, with work queued.
struct AtEnd {
    World world;
    std::vector<Array> arrays;
    std::vector<Kernel> kernels;

    AtEnd() {
        start_with_arrays(world);
        Handle context = nullptr;
        CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
        CLIENT_CHECK(cu::context_push(context) == cuda_success);
        CLIENT_CHECK(cu::stream_create(&world.stream, 1u) == cuda_success);
        CLIENT_CHECK(cu::context_pop(&context) == cuda_success);
        const Device theirs =
            device("cuda", 0, {{"stream", reinterpret_cast<std::uintptr_t>(world.stream)}});
        arrays = {empty({4}, DType::float32, world.device, true),
                  zeros({4}, DType::float32, theirs), zeros({4}, DType::float32, device("cuda:1")),
                  array_from_ptr(world.x.ptr(), DType::float32, {4}, world.device, true)};
        world.exported = export_memory(world.x);
        arrays.push_back(import_memory(world.exported, DType::float32, {4}, world.device));
        to_dlpack(arrays[0]);  // which nobody takes
        kernels.push_back(make_scale());
        for (Array& y : arrays)
            if (y.device().index() == 0) kernels[0](2.0f, world.y, y);
    }
};

AtEnd* at_end = nullptr;

/// Ends a process with everything alive, which destructors of static objects let go of, while this
/// call fails.
struct End : Ending {
    Counts calls;  // of the end

    End(const std::string& failure, Environment environment) {
        const auto path = std::filesystem::temp_directory_path() /
                          ("tack_calls_at_end_" + std::to_string(getpid()));
        std::filesystem::remove(path);
        environment.emplace_back("TACK_SIM_CALLS", path.string());
        static_cast<Ending&>(*this) = run_tack(
            [&] {
                at_end = new AtEnd;
                std::atexit([] { delete at_end; });
                const Control control;
                control.reset_counts();
                control.fail(failure);
                return std::string();
            },
            environment);
        std::ifstream file(path);
        calls = counts_of(lines_of({std::istreambuf_iterator<char>(file), {}}));
        std::filesystem::remove(path);
    }
    int leaks() const {
        int count = 0;
        for (const std::string& line : lines_of(report)) count += line.find("leak") != line.npos;
        return count;
    }
};

class EveryCallAtTheEnd : public testing::TestWithParam<Mode> {};

TEST_P(EveryCallAtTheEnd, that_fails_does_no_harm) {
    const Mode& mode = GetParam();
    const Environment environment = environment_of(mode);
    const End whole("", environment);
    ASSERT_EQ(whole.status, 0);
    ASSERT_FALSE(whole.says("violation")) << whole.report;
    Counts calls = whole.calls;
    ASSERT_EQ(calls.extract("failed").mapped(), 0);
    const int cases = for_each_call(calls, [&](const std::string& entry, int call, bool) {
        End end(entry + ":" + std::to_string(call), environment);
        EXPECT_EQ(end.status, 0) << "signal " << end.signal;
        EXPECT_EQ(end.calls["failed"], 1);
        EXPECT_FALSE(end.says("violation")) << end.report;
        EXPECT_LE(end.leaks(), whole.leaks() + may_stay(entry)) << end.report;
    });
    EXPECT_GT(cases, 20);
    report("exit", mode, cases, calls.size(), 0);
}

INSTANTIATE_TEST_SUITE_P(OfTheDriver, EveryCallAtTheEnd, testing::ValuesIn(modes),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tack::test

// Every call of the CUDA driver fails once: in each scenario the calls are recorded, then each
// entry point's first, second and last call fails, in a process of its own.
#include <algorithm>
#include <map>
#include <memory>
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
        require(row.name != "cuda" || row.detail.size() > 10, "status");
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
/// empty, one for the violations, then the kinds of what is alive, each with its number.
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
    control.fail("");
    scenario.act(world);
    if (world.device) world.device.synchronize();
    std::string violations = sim_text("tack_sim_violations");
    for (std::string* const text : {&said, &violations})
        std::replace(text->begin(), text->end(), '\n', ' ');
    std::string alive;
    for (const std::string& line : lines_of(sim_text("tack_sim_live_objects")))
        alive += line.substr(0, line.find(" 0x")) + " 1\n";
    return said + "\n" + violations + "\n" + alive;
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

/// How many objects stay where a call fails that lets something go, or may be on the way to that.
int may_stay(const std::string& entry) {
    if (entry == "cuMemUnmap") return 2;  // the mapping and its addresses
    for (const char* word : {"Free", "Destroy", "Unmap", "Release", "Unload", "PushCurrent"})
        if (entry.find(word) != entry.npos) return 1;
    return 0;
}

struct Outcome {
    std::string said, violations;
    Counts alive;

    explicit Outcome(const Told& told) {
        std::vector<std::string> lines = lines_of(told.text);
        if (lines.size() < 2) return;
        said = lines[0];
        violations = lines[1];
        alive = counts_of({lines.begin() + 2, lines.end()});
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

class EveryCall : public testing::TestWithParam<std::tuple<Scenario, Mode>> {};

TEST_P(EveryCall, that_fails_is_a_clear_error_or_none_and_the_next_one_works) {
    const auto& [scenario, mode] = GetParam();
    Environment environment = mode.environment;
    environment.emplace_back("TACK_SIM_DEVICES", "2");
    environment.emplace_back("TACK_SIM_KEEP", "");
    if (scenario.library == std::string_view(TACK_SIM_NVRTC)) {
        for (const char* folder : {"TACK_CACHE_DIR", "XDG_CACHE_HOME", "HOME"})
            environment.emplace_back(folder, "");
    }
    const auto run = [&, &chosen = scenario](const std::string& failure) {
        return run_tack([&] { return act_with_failure(chosen, failure); }, environment);
    };
    const Outcome whole(run(""));
    ASSERT_EQ(whole.said + whole.violations, "");
    int cases = 0, errors = 0;
    const Counts calls = record(scenario, environment);
    for (const auto& [entry, count] : calls) {
        for (const int call : std::set<int>{1, std::min(2, count), count}) {
            SCOPED_TRACE(entry + ":" + std::to_string(call));
            ++cases;
            const Told told = run(entry + ":" + std::to_string(call));
            ASSERT_EQ(told.status, 0) << "signal " << told.signal;
            const Outcome outcome(told);
            errors += !outcome.said.empty();
            // A function that cannot be looked up is missing, whatever the reason.
            if (!outcome.said.empty() && entry.find("GetProcAddress") == entry.npos) {
                EXPECT_NE(outcome.said.find(entry), std::string::npos) << outcome.said;
                const char* const error =
                    entry.starts_with("nvrtc") ? "error 11" : "CUDA_ERROR_UNKNOWN (999";
                EXPECT_NE(outcome.said.find(error), std::string::npos) << outcome.said;
            }
            EXPECT_EQ(outcome.violations, "") << outcome.said;
            EXPECT_LE(outcome.beyond(whole), may_stay(entry)) << told.text;
        }
    }
    printf("%s, %s: %d cases of %zu entry points, %d of them errors\n", scenario.name, mode.name,
           cases, calls.size(), errors);
}

INSTANTIATE_TEST_SUITE_P(OfTheDriver, EveryCall,
                         testing::Combine(testing::ValuesIn(scenarios), testing::ValuesIn(modes)),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param).name) + "_" +
                                    std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace tack::test

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "array/array_state.hpp"
#include "array/element.hpp"
#include "backend/backend.hpp"
#include "device/registry.hpp"
#include "kernel/gil.hpp"
#include "kernel/specialization.hpp"
#include "tack/error.hpp"

namespace tack::kernel {

namespace {

// Set in this order, so that who sees `release_gil` sees the other too.
std::atomic<void (*)(void*)> acquire_gil{nullptr};
std::atomic<void* (*)()> release_gil{nullptr};
std::atomic<bool (*)()> holds_gil{nullptr};

/// What a launch's compiled code depends on: two bytes per argument. Most kernels' keys fit the
/// object itself, so that a launch allocates nothing.
class Key {
public:
    void add(std::uint8_t first, std::uint8_t second) {
        const auto code = static_cast<std::uint16_t>(first << 8 | second);
        if (size_ < inline_capacity)
            inline_[size_++] = code;
        else
            overflow_.push_back(code);
    }
    bool operator==(const Key& other) const noexcept {
        return size_ == other.size_ &&
               std::memcmp(inline_, other.inline_, size_ * sizeof(std::uint16_t)) == 0 &&
               overflow_ == other.overflow_;
    }

private:
    static constexpr std::size_t inline_capacity = 32;
    std::size_t size_ = 0;
    std::uint16_t inline_[inline_capacity];
    std::vector<std::uint16_t> overflow_;
};

/// The eight-byte slots of a launch, on the stack for all but unusually many parameters.
class Slots {
public:
    void add(std::uint64_t value) { *room(1) = value; }
    void add_array(const HostView& array) {
        std::uint64_t* const to = room(1 + static_cast<std::size_t>(array.ndim));
        to[0] = reinterpret_cast<std::uintptr_t>(array.address);
        for (int axis = 0; axis < array.ndim; ++axis)
            to[axis + 1] = static_cast<std::uint64_t>(array.extents[axis]);
    }
    const std::uint64_t* data() const noexcept {
        return overflow_.empty() ? inline_ : overflow_.data();
    }

private:
    std::uint64_t* room(std::size_t count) {
        const std::size_t at = size_;
        size_ += count;
        if (size_ <= inline_capacity) return inline_ + at;
        if (overflow_.empty()) overflow_.assign(inline_, inline_ + at);
        overflow_.resize(size_);
        return overflow_.data() + at;
    }

    static constexpr std::size_t inline_capacity = 80;
    std::size_t size_ = 0;
    std::uint64_t inline_[inline_capacity];
    std::vector<std::uint64_t> overflow_;
};

/// What code for the same kinds of arguments may differ by.
struct Variant {
    bool no_alias = true;
    bool large = false;

    friend bool operator==(const Variant&, const Variant&) = default;
};

/// One compiled specialization. Entries are only added, so that launches read the list unlocked.
struct Entry {
    Key key;
    detail::Ref<detail::RefCounted> scope;  // the backend's executable_scope
    Variant variant;
    detail::Ref<Executable> executable;
    std::vector<std::int32_t> stored;  // array parameters that the kernel may store to
    std::vector<std::pair<std::int32_t, IntegerRange>> ranges;
    std::vector<std::int32_t> steps;  // scalar parameters that must not be 0
    Entry* next = nullptr;
};

HostView view_of(const Argument& a) noexcept {
    if (a.kind == Argument::Kind::host_view) return *a.view;
    const ArrayState& s = *a.array;
    return {s.address(), s.shape.data(), s.nbytes, s.shape.ndim(), s.dtype, s.writable};
}

/// The backend of borrowed host memory. A plain device lives as long as the process.
Backend* host_backend() {
    static Backend* const host = &plain_device("cpu", 0).backend();
    return host;
}

bool overlap(const HostView& a, const HostView& b) noexcept {
    const auto* p = static_cast<const char*>(a.address);
    const auto* q = static_cast<const char*>(b.address);
    return p < q + b.nbytes && q < p + a.nbytes;
}

double floating_value(const Argument& a) noexcept {
    switch (a.dtype) {
        case DType::float16: {
            float16 half;
            half.bits = static_cast<std::uint16_t>(a.bits);
            return float(half);
        }
        case DType::bfloat16: {
            bfloat16 half;
            half.bits = static_cast<std::uint16_t>(a.bits);
            return float(half);
        }
        case DType::float32:
            return std::bit_cast<float>(static_cast<std::uint32_t>(a.bits));
        default:
            return std::bit_cast<double>(a.bits);
    }
}

/// A bool's or integer's value; of a uint64, its bits.
std::int64_t signed_value(const Argument& a) noexcept {
    const int unused = 64 - 8 * static_cast<int>(itemsize(a.dtype));
    if (is_signed_integer(a.dtype)) return static_cast<std::int64_t>(a.bits << unused) >> unused;
    return static_cast<std::int64_t>(a.bits << unused >> unused);
}

std::string count_text(std::size_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

void set_gil_hooks(GilHooks hooks) noexcept {
    holds_gil.store(hooks.held);
    acquire_gil.store(hooks.acquire);
    release_gil.store(hooks.release);
}

GilRelease::GilRelease(bool held) noexcept {
    if (!held) return;
    void* (*const release)() = release_gil.load(std::memory_order_acquire);
    if (!release) return;
    acquire_ = acquire_gil.load(std::memory_order_relaxed);
    token_ = release();
}
bool GilRelease::is_held() noexcept {
    bool (*const held)() = holds_gil.load(std::memory_order_acquire);
    return held && held();
}
GilRelease::~GilRelease() {
    if (acquire_) acquire_(token_);
}

struct Dispatcher::State {
    std::shared_ptr<const ir::Program> program;
    Options options;
    std::atomic<Entry*> entries{nullptr};
    std::mutex compiling;

    ~State() {
        for (Entry* e = entries.load(); e;) delete std::exchange(e, e->next);
    }

    const std::string& name() const { return program->kernel.name; }
    const std::string& parameter_name(std::size_t k) const {
        return program->kernel.parameters[k].name;
    }
    [[noreturn]] void fail(ErrorKind kind, const std::string& message) const {
        throw Error(kind, name() + ": " + message);
    }

    /// What the arguments bring: the key of their kinds, their slots, the device they are on.
    struct Bound {
        Key key;
        Slots slots;
        std::int64_t bytes = 0;  // of all arrays
        Backend* backend = nullptr;
        detail::Ref<Backend> held;  // where no array keeps it

        Variant variant() const noexcept { return {.large = bytes > backend->large_bytes}; }
    };

    void bind(std::span<const Argument> arguments, Bound& bound) const {
        const auto& parameters = program->kernel.parameters;
        if (arguments.size() != parameters.size())
            throw Error(ErrorKind::type,
                        name() + "() takes " + count_text(parameters.size(), "argument") + " but " +
                            std::to_string(arguments.size()) +
                            (arguments.size() == 1 ? " was given" : " were given"));
        for (std::size_t k = 0; k < arguments.size(); ++k) {
            const Argument& a = arguments[k];
            const ir::ParameterInfo& p = parameters[k];
            if (a.is_array()) {
                bind_array(k, a, p, bound);
            } else {
                bind_scalar(k, a, p, bound);
            }
        }
        if (!bound.backend) {
            bound.held = detail::Ref<Backend>(&default_device().backend());
            bound.backend = bound.held.get();
        }
    }

    void bind_array(std::size_t k, const Argument& a, const ir::ParameterInfo& p,
                    Bound& bound) const {
        const HostView array = view_of(a);
        bound.bytes += array.nbytes;
        if (p.kind == ir::ParameterInfo::Kind::scalar ||
            (p.kind == ir::ParameterInfo::Kind::array && p.dtype != array.dtype))
            fail_kind(k, "an array of " + std::string(tack::name(array.dtype)));
        Backend* backend =
            a.kind == Argument::Kind::array ? a.array->buffer->backend.get() : host_backend();
        if (!bound.backend) {
            bound.backend = backend;
        } else if (bound.backend != backend &&
                   bound.backend->memory_domain() != backend->memory_domain()) {
            fail(ErrorKind::value, "parameter '" + parameter_name(k) + "' is on " +
                                       backend->memory_domain() + ", other arrays are on " +
                                       bound.backend->memory_domain() +
                                       "; bring them together with to_device()");
        }
        bound.key.add(static_cast<std::uint8_t>(array.dtype),
                      static_cast<std::uint8_t>(array.ndim));
        bound.slots.add_array(array);
    }

    void bind_scalar(std::size_t k, const Argument& a, const ir::ParameterInfo& p,
                     Bound& bound) const {
        if (p.kind == ir::ParameterInfo::Kind::array) fail_kind(k, "a number");
        const bool declared = p.kind == ir::ParameterInfo::Kind::scalar;
        // Above every dtype with its dimensions: a scalar's byte never looks like an array's.
        bound.key.add(static_cast<std::uint8_t>(0x80 + static_cast<int>(a.kind)),
                      static_cast<std::uint8_t>(a.dtype));
        bound.slots.add(declared && a.dtype != p.dtype ? declared_value(k, a, p.dtype) : a.bits);
    }

    /// A number as the dtype that the parameter declares. Nothing is cut off but a float's digits.
    std::uint64_t declared_value(std::size_t k, const Argument& a, DType dtype) const {
        if (is_floating(a.dtype)) {
            if (!is_floating(dtype)) fail_kind(k, "a float");
            return encode_element(dtype, floating_value(a));
        }
        const bool is_unsigned = a.dtype == DType::uint64;
        const auto value = signed_value(a);
        if (is_integer(dtype) && !fits(dtype, value, is_unsigned))
            fail(ErrorKind::value,
                 "argument '" + parameter_name(k) + "' is " +
                     (is_unsigned ? std::to_string(a.bits) : std::to_string(value)) +
                     ", not a value of " + std::string(tack::name(dtype)));
        return is_unsigned ? encode_element(dtype, a.bits) : encode_element(dtype, value);
    }

    [[noreturn]] void fail_kind(std::size_t k, const std::string& given) const {
        const ir::ParameterInfo& p = program->kernel.parameters[k];
        fail(ErrorKind::type,
             "parameter '" + p.name + "' takes " +
                 (p.kind == ir::ParameterInfo::Kind::array ? "an array of " : "a ") +
                 std::string(tack::name(p.dtype)) + ", not " + given);
    }

    ParameterType parameter_type(std::size_t k, const Argument& a) const {
        ParameterType type;
        if (a.is_array()) {
            const HostView array = view_of(a);
            type.is_array = true;
            type.type = strong(array.dtype);
            type.ndim = array.ndim;
            type.array = static_cast<std::int32_t>(k);
            return type;
        }
        const ir::ParameterInfo& p = program->kernel.parameters[k];
        type.type = p.kind == ir::ParameterInfo::Kind::scalar ? strong(p.dtype)
                    : a.kind == Argument::Kind::weak_float    ? weak_float_type
                    : a.kind == Argument::Kind::scalar        ? strong(a.dtype)
                    : a.dtype == DType::uint64                ? weak_uint_type
                                                              : weak_int_type;
        return type;
    }

    Specialization specialization(std::span<const Argument> arguments, Variant variant) const {
        std::vector<ParameterType> types;
        for (std::size_t k = 0; k < arguments.size(); ++k)
            types.push_back(parameter_type(k, arguments[k]));
        Specialization spec = specialize(program, std::move(types), options, variant.no_alias);
        spec.large = variant.large;
        return spec;
    }

    Entry* find(const Bound& bound, Variant variant) const noexcept {
        const detail::RefCounted* const scope = bound.backend->executable_scope;
        for (Entry* e = entries.load(std::memory_order_acquire); e; e = e->next)
            if (e->variant == variant && e->scope.get() == scope && e->key == bound.key) return e;
        return nullptr;
    }

    Entry& compiled(const Bound& bound, std::span<const Argument> arguments, Variant variant,
                    bool gil_held) {
        if (Entry* found = find(bound, variant)) return *found;
        const GilRelease release(gil_held);
        const std::lock_guard lock(compiling);
        if (Entry* found = find(bound, variant)) return *found;  // by another thread meanwhile
        const Specialization spec = specialization(arguments, variant);
        auto entry = std::make_unique<Entry>();
        entry->key = bound.key;
        entry->scope = detail::Ref<detail::RefCounted>(bound.backend->executable_scope);
        entry->variant = variant;
        entry->executable = bound.backend->compile(spec);
        entry->steps = spec.steps;
        for (std::size_t k = 0; k < arguments.size(); ++k) {
            if (spec.access[k].stores) entry->stored.push_back(static_cast<std::int32_t>(k));
            if (arguments[k].kind == Argument::Kind::weak_integer &&
                spec.ranges[k].dtype != DType::int64)
                entry->ranges.emplace_back(static_cast<std::int32_t>(k), spec.ranges[k]);
        }
        entry->next = entries.load(std::memory_order_relaxed);
        entries.store(entry.get(), std::memory_order_release);
        return *entry.release();
    }

    /// Whether an array that is stored to shares bytes with another.
    static bool stored_overlap(const Entry& entry, std::span<const Argument> arguments) noexcept {
        for (const std::int32_t k : entry.stored) {
            const HostView stored = view_of(arguments[static_cast<std::size_t>(k)]);
            for (std::size_t j = 0; j < arguments.size(); ++j)
                if (arguments[j].is_array() && static_cast<std::int32_t>(j) != k &&
                    overlap(stored, view_of(arguments[j])))
                    return true;
        }
        return false;
    }

    void check(const Entry& entry, std::span<const Argument> arguments) const {
        for (const std::int32_t k : entry.stored)
            if (!view_of(arguments[static_cast<std::size_t>(k)]).writable)
                fail(ErrorKind::value,
                     "parameter '" + parameter_name(static_cast<std::size_t>(k)) +
                         "' is a read-only array, and the kernel may store to it; pass a "
                         "writable array, such as its copy()");
        for (const auto& [k, range] : entry.ranges) {
            const auto value =
                static_cast<std::int64_t>(arguments[static_cast<std::size_t>(k)].bits);
            if (value < range.low || value > range.high)
                fail(ErrorKind::value,
                     "argument '" + parameter_name(static_cast<std::size_t>(k)) + "' is " +
                         std::to_string(value) + ", not a value of " +
                         std::string(tack::name(range.dtype)) +
                         ", the type it takes in the kernel; pass a number that is, or one with "
                         "a dtype of its own");
        }
        for (const std::int32_t k : entry.steps)
            if (arguments[static_cast<std::size_t>(k)].bits == 0)
                fail(ErrorKind::value, "argument '" + parameter_name(static_cast<std::size_t>(k)) +
                                           "' is 0, and it is the step of a range, which cannot "
                                           "be 0; pass a step of either sign");
    }

    [[noreturn]] void fail_bounds(const BoundsFault& fault) const {
        const std::string& array = parameter_name(static_cast<std::size_t>(fault.parameter));
        fail(ErrorKind::index,
             "index " + std::to_string(fault.index) + " is out of range for axis " +
                 std::to_string(fault.axis) + " of '" + array + "', whose extent is " +
                 std::to_string(fault.extent) +
                 "; the launch has completed, reading 0 and storing nothing there. Guard the "
                 "access with `if`, or change the loop's range");
    }
};

Dispatcher::Dispatcher(std::shared_ptr<const ir::Program> program, Options options)
    : state_(std::make_unique<State>()) {
    state_->program = std::move(program);
    state_->options = options;
}
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;
Dispatcher::~Dispatcher() = default;

const ir::Program& Dispatcher::program() const noexcept { return *state_->program; }

void Dispatcher::launch(std::span<const Argument> arguments, bool gil_held) {
    State::Bound bound;
    state_->bind(arguments, bound);
    Entry* entry = &state_->compiled(bound, arguments, bound.variant(), gil_held);
    state_->check(*entry, arguments);
    if (State::stored_overlap(*entry, arguments))
        entry = &state_->compiled(bound, arguments, {.no_alias = false}, gil_held);
    BoundsFault fault;
    bound.backend->launch(
        *entry->executable,
        {bound.slots.data(), gil_held, state_->options.check_bounds ? &fault : nullptr, arguments});
    if (fault.recorded) state_->fail_bounds(fault);
}

std::string Dispatcher::inspect(std::span<const Argument> arguments, Inspect what) {
    if (what == Inspect::ir) return ir::to_string(*state_->program);
    State::Bound bound;
    state_->bind(arguments, bound);
    const Specialization spec = state_->specialization(arguments, bound.variant());
    return what == Inspect::source ? bound.backend->source(spec) : bound.backend->assembly(spec);
}

}  // namespace tack::kernel

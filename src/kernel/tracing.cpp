#include <mutex>

#include "tack/error.hpp"
#include "tack/kernel.hpp"

namespace tack {

namespace {

thread_local ir::Builder* current = nullptr;

/// Makes a builder the thread's current one for the object's life.
class Tracing {
public:
    explicit Tracing(ir::Builder& builder) : before_(current) { current = &builder; }
    Tracing(const Tracing&) = delete;
    Tracing& operator=(const Tracing&) = delete;
    ~Tracing() { current = before_; }

private:
    ir::Builder* before_;
};

ir::Range built(const Range& range) {
    return {range.start.value(), range.stop.value(), range.step.value()};
}

}  // namespace

namespace detail {

ir::Builder& tracer(const char* what) {
    if (!current)
        throw Error(ErrorKind::runtime,
                    std::string(what) +
                        ": kernel values exist only inside the function given to "
                        "tack::Kernel, while it builds the kernel");
    return *current;
}

ir::Local keep(ir::Value value) { return tracer("value").temporary(value); }

void begin_parallel(std::initializer_list<Range> ranges, ir::Local* variables) {
    ir::Builder& b = tracer("parallel");
    std::vector<ir::Range> list;
    for (const Range& range : ranges) {
        variables[list.size()] = b.local("i");
        list.push_back(built(range));
    }
    b.parallel({variables, list.size()}, list);
}

ir::Local begin_for(const Range& range) {
    ir::Builder& b = tracer("for_");
    const ir::Local variable = b.local("k");
    b.for_range(variable, built(range));
    return variable;
}

}  // namespace detail

Expr::Expr(bool value) : kind_(Kind::truth), integer_(value) {}
Expr::Expr(std::int64_t value) : kind_(Kind::integer), integer_(value) {}
Expr::Expr(double value) : kind_(Kind::number), number_(value) {}

ir::Value Expr::value() const {
    ir::Builder& b = detail::tracer("value");
    switch (kind_) {
        case Kind::truth:
            return b.literal(integer_ != 0);
        case Kind::integer:
            return b.literal(integer_);
        case Kind::number:
            return b.literal(number_);
        case Kind::kept:
            break;
    }
    return b.use(local_);
}

struct Kernel::State {
    std::string name;
    std::function<void(ir::Builder&)> body;
    kernel::Options options;
    std::source_location where;
    std::once_flag built;
    std::unique_ptr<kernel::Dispatcher> dispatcher;
};

Kernel::Kernel(std::string name, std::function<void(ir::Builder&)> body, kernel::Options options,
               std::source_location where, Traced)
    : state_(std::make_unique<State>()) {
    state_->name = std::move(name);
    state_->body = std::move(body);
    state_->options = options;
    state_->where = where;
}
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(Kernel&&) noexcept = default;
Kernel::~Kernel() = default;

kernel::Dispatcher& Kernel::dispatcher() const {
    State& s = *state_;
    std::call_once(s.built, [&s] {
        ir::Builder builder(s.name);
        builder.source(s.where.file_name(), static_cast<int>(s.where.line()), {});
        builder.at(static_cast<int>(s.where.line()), 0);
        const Tracing tracing(builder);
        s.body(builder);
        s.dispatcher = std::make_unique<kernel::Dispatcher>(builder.finish(), s.options);
    });
    return *s.dispatcher;
}

}  // namespace tack

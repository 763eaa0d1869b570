#include "tack/error.hpp"

#include <atomic>
#include <utility>

namespace tack {

struct Text {
    std::string message;
    std::atomic<int> refs{1};
};

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), text_(new Text{std::move(message)}) {}

Error::Error(const Error& other) noexcept
    : std::exception(other), kind_(other.kind_), text_(other.text_) {
    text_->refs.fetch_add(1, std::memory_order_relaxed);
}

Error& Error::operator=(const Error& other) noexcept {
    Error copy(other);
    std::swap(kind_, copy.kind_);
    std::swap(text_, copy.text_);
    return *this;
}

Error::~Error() {
    if (text_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete text_;
}

const char* Error::what() const noexcept { return text_->message.c_str(); }

}  // namespace tack

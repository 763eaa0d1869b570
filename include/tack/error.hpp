/// The one exception type of the library.
#pragma once

#include <exception>
#include <string>

#include "tack/config.hpp"

namespace tack {

/// What kind of mistake an Error reports; Python raises the class named beside it.
enum class ErrorKind {
    value,           // ValueError
    type,            // TypeError
    runtime,         // RuntimeError
    buffer,          // BufferError
    index,           // IndexError
    memory,          // MemoryError
    non_contiguous,  // tack.NonContiguousError, both ValueError and BufferError
    compile,         // tack.CompileError, a TypeError: a kernel that cannot be compiled
};

/// Thrown by every function of the library that fails; nothing else is thrown on purpose.
/// The text names the operation, what failed, the values seen and what to do.
class TACK_API Error : public std::exception {
public:
    Error(ErrorKind kind, std::string message);
    Error(const Error&) noexcept;
    Error& operator=(const Error&) noexcept;
    ~Error() override;

    ErrorKind kind() const noexcept { return kind_; }
    const char* what() const noexcept override;

private:
    ErrorKind kind_;
    struct Text* text_;  // shared, so that copying an Error cannot throw
};

}  // namespace tack

#include "backend/backend.hpp"

namespace tack {

std::string Backend::source(const kernel::Specialization&) {
    throw Error(ErrorKind::runtime, "inspect: Backend " + name + " has no source of its kernels");
}

std::string Backend::assembly(const kernel::Specialization&) {
    throw Error(ErrorKind::runtime, "inspect: Backend " + name + " has no assembly of its kernels");
}

}  // namespace tack

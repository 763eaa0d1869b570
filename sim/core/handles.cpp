#include "core/handles.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tack_sim {

void* Handles::add(std::shared_ptr<Object> object) {
    constexpr uintptr_t spacing = 64;
    if (next_ == end_) {
        constexpr size_t size = size_t{1} << 30;
        void* fresh =
            mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED) throw std::bad_alloc();
        next_ = reinterpret_cast<uintptr_t>(fresh);
        end_ = next_ + size;
    }
    void* handle = reinterpret_cast<void*>(next_);
    next_ += spacing;
    object->handle = handle;
    objects_[reinterpret_cast<uintptr_t>(handle)] = std::move(object);
    return handle;
}

Object* Handles::find(const void* handle) const {
    auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second.get();
}

std::vector<Object*> Handles::alive() const {
    std::vector<Object*> found;
    for (auto& [handle, object] : objects_) {
        if (object->alive) found.push_back(object.get());
    }
    std::sort(found.begin(), found.end(),
              [](const Object* a, const Object* b) { return a->handle < b->handle; });
    return found;
}

}  // namespace tack_sim

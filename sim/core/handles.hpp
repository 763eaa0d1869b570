// Handles that are never used twice, so that a stale, foreign or made up one is always known.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tack_sim {

// What a handle stands for. The face of a driver derives its objects from it.
struct Object {
    explicit Object(const char* kind_name) : kind(kind_name) {}
    virtual ~Object() = default;
    const char* kind;  // one array for each kind, compared by address
    void* handle = nullptr;
    bool alive = true;
    bool died_with_context = false;  // not by a call that named it
};

class Handles {
public:
    // The handle of a new object: an address that nobody can read.
    void* add(std::shared_ptr<Object> object);

    // The object, alive or not; null if there never was such a handle.
    Object* find(const void* handle) const;

    // Those alive, oldest first.
    std::vector<Object*> alive() const;

private:
    std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
    uintptr_t next_ = 0;
    uintptr_t end_ = 0;
};

}  // namespace tack_sim

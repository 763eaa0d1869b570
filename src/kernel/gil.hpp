/// Letting go of the front end's interpreter lock.
#pragma once

namespace tack::kernel {

/// Lets go of the lock for the object's life where the caller holds it. The lock is outermost: it
/// must not be taken back (this object's end) under a lock of ours.
class GilRelease {
public:
    explicit GilRelease(bool held) noexcept;
    /// For destructors that wait, which cannot know on whose behalf they run.
    static bool is_held() noexcept;
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;
    ~GilRelease();

private:
    void (*acquire_)(void*) = nullptr;
    void* token_ = nullptr;
};

}  // namespace tack::kernel

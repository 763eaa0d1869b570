/// Intrusive reference counting, for objects that many handles share.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tack::detail {

/// Base of a shared object; starts with no reference and is destroyed with its last one,
/// on whichever thread drops it.
class RefCounted {
public:
    RefCounted() = default;
    RefCounted(const RefCounted&) = delete;
    RefCounted& operator=(const RefCounted&) = delete;

    void acquire() const noexcept {
        if (!is_immortal(refs_.load(std::memory_order_relaxed)))
            refs_.fetch_add(1, std::memory_order_relaxed);
    }
    /// In place of acquire() while no one else can hold the object: it is new.
    void acquire_first() const noexcept { refs_.store(1, std::memory_order_relaxed); }
    void release() const noexcept {
        // The only owner needs no locked instruction: no one is left who could acquire.
        const std::uint64_t refs = refs_.load(std::memory_order_acquire);
        if (is_immortal(refs)) return;
        if (refs == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
    /// Ends the counting: the object is never destroyed. Before other threads can see it.
    void make_immortal() const noexcept { refs_.store(immortal, std::memory_order_relaxed); }

protected:
    virtual ~RefCounted() = default;

    /// A reference of a second kind. True where it is the only one of its kind.
    bool acquire_second() const noexcept {
        return refs_.fetch_add(second, std::memory_order_acq_rel) >> 32 == 0;
    }
    void release_second() const noexcept {
        if (refs_.load(std::memory_order_acquire) == second ||
            refs_.fetch_sub(second, std::memory_order_acq_rel) == second)
            delete this;
    }

private:
    // All references are counted in the lower half, those of the second kind in the upper too.
    static constexpr std::uint64_t second = (std::uint64_t{1} << 32) + 1;
    static constexpr std::uint64_t immortal = std::uint64_t{3} << 62;
    static bool is_immortal(std::uint64_t refs) noexcept { return refs >= immortal; }

    mutable std::atomic<std::uint64_t> refs_{0};
};

/// A counted pointer to a RefCounted object, or null.
template <class T>
class Ref {
public:
    Ref() noexcept = default;
    Ref(std::nullptr_t) noexcept {}
    explicit Ref(T* object) noexcept : object_(object) {
        if (object_) object_->acquire();
    }
    Ref(const Ref& other) noexcept : Ref(other.object_) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    template <class U>
        requires std::is_convertible_v<U*, T*>
    Ref(Ref<U> other) noexcept : object_(other.leak()) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_) object_->release();
    }

    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

    /// Gives the reference away: the caller must release it. See adopt().
    T* leak() noexcept { return std::exchange(object_, nullptr); }
    /// Takes over a reference that leak() gave away.
    static Ref adopt(T* object) noexcept {
        Ref ref;
        ref.object_ = object;
        return ref;
    }

private:
    T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
    T* object = new T(std::forward<Args>(args)...);
    object->acquire_first();
    return Ref<T>::adopt(object);
}

}  // namespace tack::detail

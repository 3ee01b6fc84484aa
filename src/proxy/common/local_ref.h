#pragma once

#include <cstdint>
#include <utility>

namespace sluice {

template <class T>
class LocalRef;

/// Counts the references to an object that belongs to one thread. It has to be made by LocalRef::make().
class LocallyShared {
 protected:
  LocallyShared() = default;
  ~LocallyShared() = default;
  LocallyShared(const LocallyShared&) = delete;
  LocallyShared& operator=(const LocallyShared&) = delete;

 private:
  template <class T>
  friend class LocalRef;
  uint32_t refs_ = 0;
};

/// Shares the ownership of an object on one thread: a std::shared_ptr of 8 bytes instead of 16, for what each
/// connection holds.
template <class T>
class LocalRef {
 public:
  LocalRef() = default;
  LocalRef(const LocalRef& other) : to_(other.to_) {
    if (to_) ++to_->refs_;
  }
  LocalRef(LocalRef&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  LocalRef& operator=(LocalRef other) noexcept {
    std::swap(to_, other.to_);
    return *this;
  }
  ~LocalRef() {
    if (to_ && --to_->refs_ == 0) delete to_;
  }

  template <class... Args>
  static LocalRef make(Args&&... args) {
    LocalRef made;
    made.to_ = new T(std::forward<Args>(args)...);
    made.to_->refs_ = 1;
    return made;
  }

  T* operator->() const { return to_; }
  T& operator*() const { return *to_; }
  explicit operator bool() const { return to_ != nullptr; }

 private:
  T* to_ = nullptr;
};

}  // namespace sluice

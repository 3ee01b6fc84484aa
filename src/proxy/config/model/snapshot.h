#pragma once

#include <memory>
#include <utility>

namespace sluice::config {

/// A reference-counted, immutable configuration, or a part of one. Whoever needs configuration for longer than a call
/// holds a snapshot of its part, which stays valid and unchanged, even when the process has moved on to another
/// configuration. Copies share the value. Callable on any thread.
///
///     Snapshot<Config> config = load_file(path).value();
///     Snapshot<Listener> listener = config.part(config->listeners[0]);  // keeps the whole `config` alive
template <typename T>
class Snapshot {
 public:
  /// A snapshot of a value of its own. Implicit: a value and its snapshot mean the same.
  Snapshot(T value) : value_(std::make_shared<const T>(std::move(value))) {}

  /// A snapshot of `part`, which must be a part of this value.
  template <typename U>
  Snapshot<U> part(const U& part) const {
    return Snapshot<U>(std::shared_ptr<const U>(value_, &part));
  }

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  const T* get() const { return value_.get(); }

 private:
  template <typename U>
  friend class Snapshot;
  explicit Snapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> value_;
};

}  // namespace sluice::config

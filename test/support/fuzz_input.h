// A fuzzer's input, taken from the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::test {

/// A base class for fuzzers: their steps take what they need, and there are zeros after the end.
class FuzzInput {
 protected:
  FuzzInput(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  bool used_up() const { return left_.empty(); }
  uint8_t byte() {
    if (left_.empty()) return 0;
    const char c = left_.front();
    left_.remove_prefix(1);
    return static_cast<uint8_t>(c);
  }
  /// Fewer at the end of the input.
  std::string_view take(size_t size) {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view left_;
};

}  // namespace sluice::test

#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "proxy/http/message/fields.h"

namespace sluice {

/// A buffer in which to assemble a text for a head from several others. It truncates at its capacity, which exceeds
/// what a head may hold.
class LongText {
 public:
  /// The thread's shared instance, cleared: for one text at a time.
  static LongText& scratch() {
    static thread_local LongText text;
    text.size_ = 0;
    return text;
  }

  void add(std::string_view text) { size_ += text.copy(bytes_.data() + size_, bytes_.size() - size_); }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == bytes_.size(); }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, Fields::kMaxBytes> bytes_;
  size_t size_ = 0;
};

}  // namespace sluice

#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "proxy/http/message/fields.h"

namespace sluice {

/// A text that is put together of others, on the way into a head. Cut off at its room, which is more than a head may
/// have.
class LongText {
 public:
  /// The thread's, empty: for one text at a time.
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

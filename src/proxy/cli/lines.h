#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

/// The output of `sluice explain`: lines of a label, which may be empty, and a text.
class Lines {
 public:
  void add(std::string_view word, std::string_view text) {
    constexpr size_t kColumn = 12;
    absl::StrAppend(&text_, word, std::string(kColumn - std::min(kColumn - 1, word.size()), ' '), text, "\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace sluice

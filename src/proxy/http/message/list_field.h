#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "proxy/common/token.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// The elements of a field whose value is a list (RFC 9110 section 5.6.1), from the last one to the first, over all
/// fields of that name; blanks around them, and empty ones, are left out. For lists without quoted texts.
class ListFromTheRight {
 public:
  /// `name`: in lower case. Both must outlive this.
  ListFromTheRight(const Fields& fields, std::string_view name) : fields_(fields), name_(name), index_(fields.size()) {}

  std::optional<std::string_view> next() {
    for (;;) {
      if (rest_.empty() && !find_field()) return std::nullopt;
      const size_t comma = rest_.rfind(',');
      const size_t begin = comma == std::string_view::npos ? 0 : comma + 1;
      const std::string_view element = http1::trimmed(rest_.substr(begin));
      rest_ = rest_.substr(0, begin == 0 ? 0 : comma);
      if (!element.empty()) return element;
    }
  }

 private:
  bool find_field() {
    while (index_ > 0) {
      const Fields::Field field = fields_[--index_];
      if (field.name == name_) {
        rest_ = field.value;
        return true;
      }
    }
    return false;
  }

  const Fields& fields_;
  std::string_view name_;
  size_t index_;
  std::string_view rest_;
};

}  // namespace sluice

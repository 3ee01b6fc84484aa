#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "proxy/common/token.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// Iterates over the elements of a list-valued field (RFC 9110 section 5.6.1) from last to first, across all fields of
/// that name. It strips blanks around elements and skips empty ones. Not for lists with quoted strings.
class ListFromTheRight {
 public:
  /// `fields` and `name` must outlive this object. `name` is in lower case.
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

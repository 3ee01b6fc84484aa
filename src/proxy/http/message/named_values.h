// Lists of name-value pairs in a request: query parameters and cookies.
#pragma once

#include <algorithm>
#include <string_view>

#include "proxy/http/message/fields.h"

namespace sluice {

struct NamedValue {
  std::string_view name, value;
};

/// Removes the next pair from `list`, whose pairs are separated by `separator`, and returns it verbatim, with escapes.
inline NamedValue take_named_value(std::string_view& list, char separator) {
  const std::string_view whole = list.substr(0, list.find(separator));
  list.remove_prefix(std::min(whole.size() + 1, list.size()));
  const size_t equals = std::min(whole.find('='), whole.size());
  return {whole.substr(0, equals), whole.substr(std::min(equals + 1, whole.size()))};
}

/// Removes the next parameter from a query and returns it.
inline NamedValue take_parameter(std::string_view& query) { return take_named_value(query, '&'); }

/// The value of the first parameter of this name; empty if there is none.
inline std::string_view parameter_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const NamedValue parameter = take_parameter(query);
    if (parameter.name == name) return parameter.value;
  }
  return {};
}

/// The value of the first cookie of this name (RFC 6265 section 4.2.1); empty if there is none. There may be several
/// Cookie fields (RFC 9113 section 8.2.3).
inline std::string_view cookie_value(const Fields& fields, std::string_view name) {
  for (size_t i = fields.find("cookie"); i != Fields::npos; i = fields.find("cookie", i + 1)) {
    std::string_view cookies = fields[i].value;
    while (!cookies.empty()) {
      NamedValue cookie = take_named_value(cookies, ';');
      cookie.name.remove_prefix(std::min(cookie.name.find_first_not_of(' '), cookie.name.size()));
      if (cookie.name == name) return cookie.value;
    }
  }
  return {};
}

}  // namespace sluice

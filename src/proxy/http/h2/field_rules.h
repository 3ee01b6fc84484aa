#pragma once

#include <string_view>

namespace sluice::http2 {

// The character rules for field names and values: RFC 9110 section 5, RFC 9113 section 8.2, RFC 3986.

bool is_token(std::string_view text);
/// A token without upper-case letters.
bool is_field_name(std::string_view text);
/// Contains no control character except the tab, and neither begins nor ends with white space.
bool is_field_value(std::string_view text);
bool is_scheme(std::string_view text);
/// Non-empty visible ASCII without `#`, which would begin a fragment.
bool is_path(std::string_view text);
/// Whether a field applies to one HTTP/1.1 connection only (RFC 9113 section 8.2.2).
constexpr bool is_connection_specific(std::string_view name) {
  switch (name.size()) {
    case 7:
      return name == "upgrade";
    case 10:
      return name == "connection" || name == "keep-alive";
    case 16:
      return name == "proxy-connection";
    case 17:
      return name == "transfer-encoding";
    default:
      return false;
  }
}

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace sluice::http2

#include "proxy/http/h1/field_line.h"

#include <cstddef>
#include <cstring>

#include "proxy/common/token.h"
#include "sluice/internal/check.h"

namespace sluice::http1 {

namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

Error folded() { return malformed("a field line that begins with white space"); }

// Of a line whose name is followed by this instead of a colon.
Error bad_name(std::string_view name, char next) {
  if (name.empty() && is_blank(next)) return folded();
  if (!name.empty() && is_blank(next)) return malformed("white space between a field's name and its colon");
  if (!name.empty() && next == '\r') return malformed("a field line without a colon");
  return malformed("a field name that is not a token");
}

}  // namespace

Error take_field_line(std::string_view& section, FieldLine& line) {
  const char* const begin = section.data();
  const char* colon = begin;
  while (is_token_char(*colon)) ++colon;  // The line's CR is no such character.
  line.name = {begin, static_cast<size_t>(colon - begin)};
  if (*colon != ':' || line.name.empty()) return bad_name(line.name, *colon);
  const char* const value = colon + 1;
  const size_t rest = section.size() - (line.name.size() + 1);
  const auto* const end = static_cast<const char*>(std::memchr(value, '\n', rest));
  SLUICE_CHECK(end && end != value && end[-1] == '\r');
  line.value = trimmed({value, static_cast<size_t>(end - 1 - value)});
  if (!is_field_text(line.value)) return malformed("a field value with invalid characters");
  section.remove_prefix(static_cast<size_t>(end + 1 - begin));
  return !section.empty() && is_blank(section.front()) ? folded() : Error();
}

}  // namespace sluice::http1

#include "proxy/http/h2/priority.h"

#include <cstddef>

namespace sluice {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

// Parses a dictionary of structured fields (RFC 8941) but only looks at the members `u` and `i`. A string that contains
// a comma, which no known member has, is read as two unknown members.
void Http2Priority::parse(std::string_view value) {
  if (trimmed(value).empty()) return;
  Http2Priority read{.urgency = 3, .incremental = false, .told = true};
  while (!value.empty()) {
    const size_t comma = value.find(',');
    std::string_view member = trimmed(value.substr(0, comma));
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
    member = trimmed(member.substr(0, member.find(';')));  // Parameters have no meaning.
    if (member.size() == 3 && member.starts_with("u=") && member[2] >= '0' && member[2] <= '7') {
      read.urgency = static_cast<uint8_t>(member[2] - '0') & 0xf;
    } else if (member == "i" || member == "i=?1") {
      read.incremental = true;
    } else if (member == "i=?0") {
      read.incremental = false;
    }
  }
  *this = read;
}

}  // namespace sluice

#include "proxy/http/h1/start_line.h"

#include <algorithm>
#include <charconv>

#include "proxy/common/token.h"
#include "proxy/http/message/message_rules.h"

namespace sluice::http1 {

namespace {

Error read_version(std::string_view text, bool& version_1_0) {
  if (text.size() != 8 || !text.starts_with("HTTP/") || !is_digit(text[5]) || text[6] != '.' || !is_digit(text[7])) {
    return malformed("no HTTP version");
  }
  if (text[5] != '1') return {505, ResetReason::kMalformed, "a version other than HTTP/1.0 and 1.1"};
  // A later minor version is read as the highest known one (RFC 9110 section 2.5).
  version_1_0 = text[7] == '0';
  return {};
}

}  // namespace

Error read_request_line(std::string_view line, RequestLine& to) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return malformed("a request line without exactly three parts");
  to.method = line.substr(0, first);
  to.target = line.substr(first + 1, last - first - 1);
  if (!is_token(to.method)) return malformed("a method that is not a token");
  if (to.target.empty() || !is_visible(to.target) || to.target.find('#') != std::string_view::npos) {
    return malformed("a malformed request target");
  }
  if (const Error error = read_version(line.substr(last + 1), to.version_1_0)) return error;
  if (!is_method_to_forward(to.method)) return {501, ResetReason::kMalformed, "a method that is not forwarded"};
  return {};
}

Error read_status_line(std::string_view line, bool& version_1_0, uint16_t& status) {
  if (const Error error = read_version(line.substr(0, line.find(' ')), version_1_0)) return error;
  line.remove_prefix(std::min<size_t>(line.size(), 9));
  const std::string_view digits = line.substr(0, 3);
  if (digits.size() != 3 || !std::all_of(digits.begin(), digits.end(), is_digit)) return malformed("no status");
  // The space may be missing along with the reason phrase, which has no meaning (RFC 9112 section 4).
  if (line.size() > 3 && line[3] != ' ') return malformed("no status");
  if (!is_field_text(line)) return malformed("a reason phrase with invalid characters");
  std::from_chars(digits.data(), digits.data() + 3, status);
  if (status < 100 || status > 599) return malformed("a status outside 100 to 599");
  return {};
}

Error set_target(const RequestLine& line, std::string_view host, bool secure, ChunkPool& pool, Head& head) {
  using Part = Head::Part;
  std::string_view authority = host, path = line.target, slash;
  if (line.method == "CONNECT") {
    authority = line.target;
    path = {};
    if (authority.find(':', authority.rfind(']') + 1) == std::string_view::npos || authority.ends_with(':') ||
        !is_authority(authority)) {
      return malformed("a CONNECT target that is not host:port");
    }
  } else if (path == "*") {
    if (line.method != "OPTIONS") return malformed("a request target * without OPTIONS");
  } else if (path.front() != '/') {
    const size_t scheme = path.find("://");
    if (scheme == std::string_view::npos ||
        (!same(path.substr(0, scheme), "http") && !same(path.substr(0, scheme), "https"))) {
      return malformed("a request target that is neither a path nor an HTTP URI");
    }
    path.remove_prefix(scheme + 3);
    authority = path.substr(0, path.find_first_of("/?"));
    path.remove_prefix(authority.size());
    if (!is_authority(authority)) return malformed("a request target with a malformed authority");
    if (path.empty() && line.method == "OPTIONS") {
      path = "*";
    } else if (path.empty() || path.front() == '?') {
      slash = "/";
    }
  }
  if (!head.set(pool, Part::kMethod, line.method) || !head.set(pool, Part::kScheme, secure ? "https" : "http") ||
      !head.set(pool, Part::kAuthority, without_empty_port(authority)) || !head.set(pool, Part::kPath, slash, path)) {
    return too_large(431, "a head that is too large");
  }
  return {};
}

}  // namespace sluice::http1

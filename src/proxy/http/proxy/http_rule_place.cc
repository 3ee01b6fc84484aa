// What the log shows of a message that breaks a rule.

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "proxy/common/token.h"
#include "proxy/http/proxy/http_rules.h"

namespace sluice {

namespace {

constexpr std::string_view kHiddenText = "(hidden)";

// The most that is shown of a line that does not look like a request.
constexpr size_t kFirstWordBytes = 32;

// Appends `text` with every byte but visible ASCII, quotes and backslashes as `\xNN`.
void append_escaped(std::string& to, std::string_view text) {
  constexpr char kHexDigits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7f && c != '"' && c != '\\') {
      to += c;
    } else {
      to += {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
    }
  }
}

// Cuts an escaped text, not within an escape.
void cut_to(std::string& text, size_t bytes) {
  constexpr std::string_view kMark = "...";
  if (text.size() <= bytes) return;
  text.resize(bytes - kMark.size());
  const size_t escape = text.rfind('\\');
  if (escape != std::string::npos && text.size() - escape < 4) text.resize(escape);
  text += kMark;
}

// Whether the line is `METHOD TARGET ...` with a target of HTTP, or ends like a request line.
bool looks_like_request(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || !http1::is_token(line.substr(0, space))) return false;
  const std::string_view rest = line.substr(space + 1);
  return rest.starts_with('/') || rest.starts_with("http://") || rest.starts_with("https://") ||
         rest.find(" HTTP/") != std::string_view::npos;
}

// A target, or all that follows it, without the secrets that it may hold: its query, and the user of a URI.
void append_target(std::string& to, std::string_view text) {
  const size_t query = text.find('?');
  std::string_view target = text.substr(0, query);
  const size_t scheme = target.find("://");
  if (scheme != std::string_view::npos) {
    const size_t authority = scheme + 3, at = target.substr(0, target.find(' ', authority)).rfind('@');
    if (at != std::string_view::npos && at > authority) {
      append_escaped(to, target.substr(0, authority));
      to += kHiddenText;
      target.remove_prefix(at);
    }
  }
  append_escaped(to, target);
  if (query == std::string_view::npos) return;
  absl::StrAppend(&to, "?", kHiddenText);
  const size_t version = text.rfind(" HTTP/");
  if (version != std::string_view::npos && version > query) append_escaped(to, text.substr(version));
}

void append_request(std::string& to, const BrokenMessage& message) {
  std::string request;
  append_escaped(request, message.method.empty() ? "-" : message.method);
  if (!message.scheme.empty() || !message.authority.empty() || !message.path.empty()) request += ' ';
  if (!message.scheme.empty()) {
    append_escaped(request, message.scheme);
    request += "://";
  }
  append_escaped(request, message.authority);
  append_target(request, message.path);
  cut_to(request, kShownBytes);
  to += request;
}

}  // namespace

std::string shown_line(std::string_view line, bool first) {
  std::string text;
  if (looks_like_request(line)) {
    append_target(text, line);
    cut_to(text, kShownBytes);
    return absl::StrCat("\"", text, "\"");
  }
  if (!first) return absl::StrCat(line.size(), " bytes that do not look like a request");
  const std::string_view word = line.substr(0, std::min(line.find(' '), kFirstWordBytes));
  append_escaped(text, word);
  const size_t hidden = line.size() - word.size();
  return hidden == 0 ? absl::StrCat("\"", text, "\"") : absl::StrCat("\"", text, "\" and ", hidden, " more bytes");
}

std::string describe_place(const BrokenMessage& message) {
  if (message.frame.empty()) {
    if (!message.line.empty()) return absl::StrCat(", in ", shown_line(message.line, message.first));
    if (message.method.empty() && message.path.empty()) return {};
    std::string text = ", in ";
    append_request(text, message);
    return text;
  }
  std::string text = absl::StrCat(", in ", message.frame);
  if (message.stream != 0) absl::StrAppend(&text, " of stream ", message.stream);
  if (!message.method.empty() || !message.path.empty() || !message.authority.empty()) {
    text += ": ";
    append_request(text, message);
  }
  return text;
}

}  // namespace sluice

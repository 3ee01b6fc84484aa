#include "proxy/http/proxy/forwarded_field.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "proxy/common/token.h"
#include "proxy/http/message/long_text.h"

namespace sluice {

namespace {

constexpr std::string_view kName = "forwarded";

// Removes `c` from the beginning of `text`. Returns false if it is not there.
bool take(char c, std::string_view& text) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

bool take_token(std::string_view& text) {
  const auto* const end = std::find_if_not(text.begin(), text.end(), http1::is_token_char);
  const auto size = static_cast<size_t>(end - text.begin());
  text.remove_prefix(size);
  return size > 0;
}

// RFC 9110 section 5.6.4.
bool take_quoted(std::string_view& text) {
  if (!take('"', text)) return false;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return true;
    if (c != '\\') continue;
    if (text.empty()) return false;
    text.remove_prefix(1);
  }
  return false;
}

void skip_blanks(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}

// `host` may hold a port or brackets, which a token may not contain.
void add_quoted(std::string_view text, LongText& to) {
  if (http1::is_token(text)) return to.add(text);
  to.add("\"");
  while (!text.empty()) {
    const size_t plain = std::min(text.find_first_of("\"\\"), text.size());
    to.add(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    to.add("\\");
    to.add(text.substr(0, 1));
    text.remove_prefix(1);
  }
  to.add("\"");
}

// Section 6: an IPv6 address is in brackets, and therefore in quotes.
void add_node(const ClientIp& client, LongText& to) {
  std::array<char, ClientIp::kTextBytes> room;
  const std::string_view address = client.text(room);
  const bool is_ip6 = client.bytes().size() == 16;
  to.add(is_ip6 ? "\"[" : "");
  to.add(address.empty() ? "unknown" : address);
  to.add(is_ip6 ? "]\"" : "");
}

void add_element(const ForwardedElement& element, LongText& to) {
  to.add("for=");
  add_node(element.client, to);
  to.add(";proto=");
  to.add(element.scheme);
  if (!element.authority.empty()) {
    to.add(";host=");
    add_quoted(element.authority, to);
  }
  to.add(";by=_");
  to.add(element.listener);
}

}  // namespace

bool is_forwarded(std::string_view value) {
  for (;;) {
    do {
      skip_blanks(value);
      if (!take_token(value) || !take('=', value)) return false;
      if (!take_token(value) && !take_quoted(value)) return false;
    } while (take(';', value));
    skip_blanks(value);
    if (value.empty()) return true;
    if (!take(',', value)) return false;
  }
}

bool add_forwarded_element(ChunkPool& pool, config::ForwardedFor forwarded, const ForwardedElement& element,
                           Counter& malformed, Head& request) {
  if (forwarded == config::ForwardedFor::kOff) return true;
  LongText& list = LongText::scratch();
  if (forwarded == config::ForwardedFor::kAppend) {
    for (size_t i = request.fields.find(kName); i != Fields::npos; i = request.fields.find(kName, i + 1)) {
      if (!is_forwarded(request.fields[i].value)) {
        malformed.add();
        continue;
      }
      list.add(request.fields[i].value);
      list.add(", ");
    }
  }
  request.fields.remove(kName);
  add_element(element, list);
  return !list.full() && request.fields.add(pool, kName, list.text());
}

}  // namespace sluice

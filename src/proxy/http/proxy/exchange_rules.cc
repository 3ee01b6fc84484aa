// HTTP's rules for an intermediary, for all combinations of versions on the two sides.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
#include "net/worker.h"
#include "proxy/common/token.h"
#include "proxy/http/message/http_date.h"
#include "proxy/http/message/long_text.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"

namespace sluice {

// Some servers treat an underscore as a hyphen, and so take the field for another one.
bool Exchange::has_underscore(const Fields& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](const Fields::Field& field) { return field.name.find('_') != std::string_view::npos; });
}

// Replaces all expectations of the client by one `expect: 100-continue`, as the HTTP/1.1 codec does: an HTTP/1.1 server
// might interpret several fields, or another spelling, in its own way. Returns false if there is another expectation
// (RFC 9110 section 10.1.1), or if the head has no room.
bool Exchange::take_expectations() {
  constexpr std::string_view kName = "expect", kContinue = "100-continue";
  size_t index = request_.fields.find(kName);
  if (index == Fields::npos) return true;
  for (; index != Fields::npos; index = request_.fields.find(kName, index + 1)) {
    if (!absl::EqualsIgnoreCase(request_.fields[index].value, kContinue)) return false;
  }
  request_.fields.remove(kName);
  const bool has_body = !request_ended_ && !tunnel_;
  return !has_body || request_.fields.add(pool(), kName, kContinue);
}

// Applies Max-Forwards, which limits how far an OPTIONS or TRACE is forwarded (RFC 9110 section 7.6.2). Returns false
// if the request goes no further because a response was sent.
bool Exchange::count_hop() {
  constexpr std::string_view kName = "max-forwards";
  const bool trace = request_.method() == "TRACE";
  if (!trace && request_.method() != "OPTIONS") return true;
  const size_t index = request_.fields.find(kName);
  if (index == Fields::npos) return true;
  uint64_t left = 0;
  if (request_.fields.find(kName, index + 1) != Fields::npos ||
      !http1::read_length(request_.fields[index].value, left)) {
    fail(HttpEnd::kBadRequest);
    return false;
  }
  if (left == 0) {
    if (!trace) {
      respond(200, {}, {});
      return false;
    }
    // Only the request line: header fields may hold values that scripts of a page must not see.
    LongText& line = LongText::scratch();
    for (const std::string_view part : {request_.method(), std::string_view(" "), original_path()}) line.add(part);
    line.add(" HTTP/1.1\r\n\r\n");
    respond(200, "message/http", line.text());
    return false;
  }
  std::array<char, 24> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), left - 1);
  request_.fields.remove(kName);
  if (request_.fields.add(pool(), kName, {digits.data(), static_cast<size_t>(written.ptr - digits.data())})) {
    return true;
  }
  fail(HttpEnd::kBadRequest);
  return false;
}

// Drops trailer fields that only this proxy may set. A server that merges trailers into the header section, as RFC 9110
// section 6.5.2 permits, would take them for values from this proxy.
void Exchange::drop_reserved(Fields& trailers) {
  for (const std::string& name : listener_.reserved_trailers) {
    listener_.counters.trailer_fields_dropped.add(trailers.remove(name));
  }
}

// A recipient adds a Date to a response without one (RFC 9110 section 6.6.1): caches behind this proxy count from it.
bool Exchange::add_date(Head& head) {
  return tunnel_agreed_ || head.fields.find("date") != Fields::npos || head.fields.add(pool(), "date", http_date());
}

}  // namespace sluice

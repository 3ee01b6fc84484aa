// What HTTP asks of whoever passes a message on, whichever versions it comes and goes by.

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

// Some servers take it for a hyphen, and so a field for another one.
bool Exchange::has_underscore(const Fields& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](const Fields::Field& field) { return field.name.find('_') != std::string_view::npos; });
}

// Makes one `expect: 100-continue` of all that the client expects, as the codec of HTTP/1.1 does: an HTTP/1.1 server
// may read several fields, or another spelling, in its own way. False if there is another expectation (RFC 9110 section
// 10.1.1), or no room.
bool Exchange::take_expectations() {
  constexpr std::string_view kName = "expect", kContinue = "100-continue";
  size_t index = request_.fields.find(kName);
  if (index == Fields::npos) return true;
  for (; index != Fields::npos; index = request_.fields.find(kName, index + 1)) {
    if (!absl::EqualsIgnoreCase(request_.fields[index].value, kContinue)) return false;
  }
  request_.fields.remove(kName);
  const bool has_body = !request_ended_ && !tunnel_;
  return !has_body || request_.fields.add(worker_.worker().pool(), kName, kContinue);
}

// Whether the client would take a response with this status for a tunnel. To an Upgrade of HTTP/1.1 only 101 is that: a
// server may ignore it and respond as to any GET (RFC 9110 section 7.8). To CONNECT every 2xx is (RFC 9110 section
// 9.3.6), and so it is to the extended CONNECT of HTTP/2 (RFC 8441 section 4).
bool Exchange::would_agree_to_tunnel(uint16_t status) const {
  return tunnel_ && status / 100 == 2 && request_.method() == "CONNECT";
}

// An OPTIONS or TRACE goes on as often as its client wants, and no further (RFC 9110 section 7.6.2). False if it goes
// no further: it was responded to.
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
    // The request line alone: fields may hold what scripts of a page must not see.
    LongText& line = LongText::scratch();
    for (const std::string_view part : {request_.method(), std::string_view(" "), asked_path()}) line.add(part);
    line.add(" HTTP/1.1\r\n\r\n");
    respond(200, "message/http", line.text());
    return false;
  }
  std::array<char, 24> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), left - 1);
  request_.fields.remove(kName);
  if (request_.fields.add(worker_.worker().pool(), kName,
                          {digits.data(), static_cast<size_t>(written.ptr - digits.data())})) {
    return true;
  }
  fail(HttpEnd::kBadRequest);
  return false;
}

// A server that merges trailers into the header section (RFC 9110 section 6.5.2 lets it) would take them for what this
// proxy says there.
void Exchange::drop_reserved(Fields& trailers) {
  for (const std::string& name : listener_.reserved_trailers) {
    listener_.counters.trailer_fields_dropped.add(trailers.remove(name));
  }
}

// Who receives a response without a Date says when that was (RFC 9110 section 6.6.1): caches behind count from then.
bool Exchange::add_date(Head& head) {
  return tunnel_agreed_ || head.fields.find("date") != Fields::npos ||
         head.fields.add(worker_.worker().pool(), "date", http_date());
}

}  // namespace sluice

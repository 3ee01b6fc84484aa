#include "proxy/http/proxy/request_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "proxy/common/token.h"
#include "proxy/http/message/long_text.h"
#include "proxy/http/proxy/http_listener.h"

namespace sluice {

bool has_underscore(const Fields& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](const Fields::Field& field) { return field.name.find('_') != std::string_view::npos; });
}

bool admit_trailers(const HttpListener& listener, Fields& trailers) {
  if (!listener.codecs->http1.allow_underscores && has_underscore(trailers)) return false;
  for (const std::string& name : listener.reserved_trailers) {
    listener.counters.trailer_fields_dropped.add(trailers.remove(name));
  }
  return true;
}

bool take_expectations(ChunkPool& pool, Head& request, bool has_body) {
  constexpr std::string_view kName = "expect", kContinue = "100-continue";
  size_t index = request.fields.find(kName);
  if (index == Fields::npos) return true;
  for (; index != Fields::npos; index = request.fields.find(kName, index + 1)) {
    if (!absl::EqualsIgnoreCase(request.fields[index].value, kContinue)) return false;
  }
  request.fields.remove(kName);
  return !has_body || request.fields.add(pool, kName, kContinue);
}

PhaseResult count_hop(ChunkPool& pool, Head& request, std::string_view path) {
  constexpr std::string_view kName = "max-forwards";
  const bool trace = request.method() == "TRACE";
  if (!trace && request.method() != "OPTIONS") return PhaseResult::go_on();
  const size_t index = request.fields.find(kName);
  if (index == Fields::npos) return PhaseResult::go_on();
  uint64_t left = 0;
  if (request.fields.find(kName, index + 1) != Fields::npos || !http1::read_length(request.fields[index].value, left)) {
    return PhaseResult::fail(HttpEnd::kBadRequest);
  }
  if (left == 0) {
    if (!trace) return PhaseResult::respond(200);
    // Only the request line: header fields may hold values that scripts of a page must not see.
    LongText& line = LongText::scratch();
    for (const std::string_view part : {request.method(), std::string_view(" "), path}) line.add(part);
    line.add(" HTTP/1.1\r\n\r\n");
    return PhaseResult::respond(200, "message/http", line.text());
  }
  std::array<char, 24> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), left - 1);
  request.fields.remove(kName);
  const bool room = request.fields.add(pool, kName, {digits.data(), static_cast<size_t>(written.ptr - digits.data())});
  return room ? PhaseResult::go_on() : PhaseResult::fail(HttpEnd::kBadRequest);
}

}  // namespace sluice

#include "proxy/http/proxy/forward_head.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "proxy/http/message/grpc_message.h"
#include "proxy/http/message/long_text.h"
#include "proxy/http/proxy/forwarded_field.h"

namespace sluice {

namespace {

bool add_client(ChunkPool& pool, std::string_view client, Head& request) {
  constexpr std::string_view kName = "x-forwarded-for";
  if (client.empty()) return true;
  size_t index = request.fields.find(kName);
  if (index == Fields::npos) return request.fields.add(pool, kName, client);
  // All values go into one field: some servers read only the first field, others only the last.
  LongText& list = LongText::scratch();
  for (; index != Fields::npos; index = request.fields.find(kName, index + 1)) {
    list.add(request.fields[index].value);
    list.add(", ");
  }
  list.add(client);
  request.fields.remove(kName);
  return !list.full() && request.fields.add(pool, kName, list.text());
}

bool add_forwarded_for(ChunkPool& pool, config::ForwardedFor forwarded_for, const Origin& origin, Head& request) {
  if (forwarded_for == config::ForwardedFor::kOff) return true;
  const bool replace = forwarded_for == config::ForwardedFor::kReplace;
  if (replace) request.fields.remove("x-forwarded-for");
  std::array<char, ClientIp::kTextBytes> ip;
  if (!add_client(pool, (replace ? origin.client : origin.peer).text(ip), request)) return false;
  request.fields.remove("x-forwarded-proto");
  return request.fields.add(pool, "x-forwarded-proto", origin.scheme);
}

}  // namespace

std::string via_of(const config::Http& config, bool http2) {
  return config.via.empty() ? std::string() : absl::StrCat(http2 ? "2 " : "1.1 ", config.via);
}

bool add_via(ChunkPool& pool, std::string_view via, Head& head) {
  return via.empty() || head.fields.add(pool, "via", via);
}

bool add_origin(ChunkPool& pool, const config::Http& config, const Origin& origin, std::string_view via,
                ClaimCounters& refused, Head& request) {
  const bool replace = config.forwarded == config::ForwardedFor::kReplace;
  const ForwardedElement element{replace ? origin.client : origin.peer, origin.scheme, origin.authority,
                                 origin.listener};
  // This comes before anything else is added, because the authority is a view into the request.
  return add_forwarded_element(pool, config.forwarded, element, refused[static_cast<size_t>(Claim::kForwarded)],
                               request) &&
         add_forwarded_for(pool, config.forwarded_for, origin, request) && add_via(pool, via, request);
}

std::optional<uint64_t> parse_grpc_timeout(std::string_view value) {
  if (value.size() < 2 || value.size() > 9) return std::nullopt;
  uint64_t number = 0;
  for (const char digit : value.substr(0, value.size() - 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(digit - '0');
  }
  switch (value.back()) {
    case 'H':
      return number * 3'600'000;
    case 'M':
      return number * 60'000;
    case 'S':
      return number * 1000;
    case 'm':
      return number;
    case 'u':
      return (number + 999) / 1000;
    case 'n':
      return (number + 999'999) / 1'000'000;
    default:
      return std::nullopt;
  }
}

bool is_grpc(const Head& request) {
  return request.method() == "POST" && is_grpc_type(request.fields.value("content-type"));
}

}  // namespace sluice

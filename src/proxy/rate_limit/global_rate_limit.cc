#include "proxy/rate_limit/global_rate_limit.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/http/message/header_option.h"
#include "proxy/http/message/named_values.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// An IPv4 address, or the /64 of an IPv6 address. Empty if there is none.
std::string_view source_text(const ClientIp* client, std::span<char> room) {
  Source source;
  if (!client || !Source::from(client->bytes(), source)) return {};
  if (!source.ipv6) return client->text(std::span<char, ClientIp::kTextBytes>(room.data(), ClientIp::kTextBytes));
  std::array<uint8_t, 16> network{};
  std::copy(source.bytes.begin(), source.bytes.end(), network.begin());
  const std::string_view text =
      ClientIp(network).text(std::span<char, ClientIp::kTextBytes>(room.data(), ClientIp::kTextBytes));
  constexpr std::string_view kSuffix = "/64";
  kSuffix.copy(room.data() + text.size(), kSuffix.size());
  return {room.data(), text.size() + kSuffix.size()};
}
constexpr size_t kSourceTextBytes = ClientIp::kTextBytes + 4;

// RateLimitResponse { overall_code = 1, statuses = 2, response_headers_to_add = 3, request_headers_to_add = 4,
// raw_body = 5 }
constexpr uint32_t kForClient = 3, kForUpstream = 4;
constexpr uint64_t kOk = 1, kOverLimit = 2;

// The seconds of RateLimit.Unit; 0 if they are not known.
uint64_t unit_seconds(uint64_t unit) {
  constexpr uint64_t kSeconds[] = {0, 1, 60, 3600, 86400, 30 * 86400, 365 * 86400, 7 * 86400};
  return unit < std::size(kSeconds) ? kSeconds[unit] : 0;
}

// The value of a UInt32Value, or of the seconds of a Duration: both are field 1.
uint64_t read_first_number(std::string_view message) {
  ProtoReader in(message);
  uint64_t value = 0;
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) value = in.number();
  }
  return value;
}

// RateLimit { requests_per_unit = 1, unit = 2, name = 3, unit_multiplier = 4 }
bool read_limit(std::string_view message, RateLimitResponse& response) {
  ProtoReader in(message);
  uint64_t unit = 0, multiplier = 1;
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) response.requests = in.number();
    if (in.is(2, ProtoWire::kVarint)) unit = in.number();
    if (in.is(3, ProtoWire::kBytes)) response.name = in.bytes();
    if (in.is(4, ProtoWire::kBytes)) multiplier = std::clamp<uint64_t>(read_first_number(in.bytes()), 1, UINT32_MAX);
  }
  response.window_s = unit_seconds(unit) * multiplier;
  return in.ok();
}

// DescriptorStatus { code = 1, current_limit = 2, duration_until_reset = 4 }
bool read_status(std::string_view message, RateLimitResponse& response) {
  RateLimitResponse found;
  uint64_t code = 0;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) code = in.number();
    if (in.is(2, ProtoWire::kBytes) && !read_limit(in.bytes(), found)) return false;
    if (in.is(4, ProtoWire::kBytes)) found.reset_s = read_first_number(in.bytes());
  }
  if (code == kOverLimit && response.window_s == 0 && !response.reset_s) {
    response.name = found.name;
    response.requests = found.requests;
    response.window_s = found.window_s;
    response.reset_s = found.reset_s;
  }
  return in.ok();
}

bool add_values(ChunkPool& pool, std::string_view message, uint32_t field, Fields& to) {
  ProtoReader in(message);
  while (in.next()) {
    if (!in.is(field, ProtoWire::kBytes)) continue;
    const std::optional<HeaderOption> header = read_header_value(in.bytes());
    if (!header || !set_field(pool, *header, HeaderOption::Action::kAppend, to)) return false;
  }
  return true;
}

bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isprint(c) && c != '"' && c != '\\';
  });
}

}  // namespace

RateDescriptors::RateDescriptors(const config::GlobalRateLimits& limits,
                                 const std::vector<config::RateDescriptor>* route, const Place& place)
    : domain_(limits.domain) {
  const auto add = [&](const std::vector<config::RateDescriptor>& all) {
    for (const config::RateDescriptor& each : all) {
      Descriptor& made = descriptors_.emplace_back();
      for (const config::RateEntry& entry : each.entries) made.push_back(entry_of(entry, place));
    }
  };
  add(limits.descriptors);
  if (route) add(*route);
  constexpr size_t kFraming = 32;  // Tags and lengths.
  room_bytes_ = domain_.size() + kFraming;
  for (const Descriptor& each : descriptors_) {
    room_bytes_ += kFraming;
    for (const Entry& entry : each) {
      room_bytes_ += entry.key.size() + std::max(entry.text.size(), kMaxValueBytes) + kFraming;
    }
  }
  room_ = std::make_unique_for_overwrite<char[]>(room_bytes_);
}

RateDescriptors::Entry RateDescriptors::entry_of(const config::RateEntry& entry, const Place& place) {
  const auto made = [&](Part part, std::string_view key, std::string_view text = {}) {
    return Entry{part, entry.key.empty() ? std::string(key) : entry.key, std::string(text)};
  };
  if (entry.source) return made(Part::kSource, "remote_address");
  if (entry.route) return made(Part::kText, "route", place.route);
  if (entry.host) return made(Part::kHost, "host");
  if (entry.sni) return made(Part::kSni, "sni");
  if (entry.peer) return made(Part::kPeer, "peer");
  if (const std::string& name = entry.header.text(); !name.empty()) return made(Part::kHeader, name, name);
  if (!entry.cookie.empty()) return made(Part::kCookie, entry.cookie, entry.cookie);
  if (!entry.jwt_claim.empty()) {
    const auto claim = std::find_if(place.claims.begin(), place.claims.end(),
                                    [&](const config::ClaimHeader& each) { return each.claim == entry.jwt_claim; });
    return made(Part::kHeader, entry.jwt_claim, claim == place.claims.end() ? "" : claim->header.text());
  }
  return made(Part::kText, "generic_key", entry.value);
}

std::string_view RateDescriptors::value_of(const Entry& entry, const RequestAttributes& facts, std::span<char> room) {
  switch (entry.part) {
    case Part::kSource:
      return source_text(facts.client, room);
    case Part::kHost:
      return facts.host;
    case Part::kSni:
      return facts.agreed ? std::string_view(facts.agreed->server_name) : std::string_view();
    case Part::kPeer:
      return facts.peer();
    case Part::kHeader:
      return entry.text.empty() ? std::string_view() : facts.fields->value(entry.text);
    case Part::kCookie:
      return cookie_value(*facts.fields, entry.text);
    case Part::kText:
      return entry.text;
  }
  return {};
}

// RateLimitRequest { domain = 1, descriptors = 2, hits_addend = 3 }, RateLimitDescriptor { entries = 1 },
// Entry { key = 1, value = 2 }
std::string_view RateDescriptors::write_request(const RequestAttributes& facts) {
  std::array<char, kSourceTextBytes> source;
  ProtoWriter out({room_.get(), room_bytes_});
  out.text(1, domain_);
  bool any = false;
  for (const Descriptor& each : descriptors_) {
    const auto lacks = [&](const Entry& entry) { return value_of(entry, facts, source).empty(); };
    if (std::any_of(each.begin(), each.end(), lacks)) continue;
    any = true;
    const size_t descriptor = out.begin(2);
    for (const Entry& entry : each) {
      const size_t at = out.begin(1);
      out.utf8(1, entry.key);
      out.utf8(2, value_of(entry, facts, source).substr(0, kMaxValueBytes));
      out.end(at);
    }
    out.end(descriptor);
  }
  out.number(3, 1);
  SLUICE_DCHECK(out.ok());
  return any ? out.written() : std::string_view();
}

std::optional<RateLimitResponse> read_rate_limit_response(std::string_view message) {
  RateLimitResponse response;
  uint64_t code = 0;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) code = in.number();
    if (in.is(2, ProtoWire::kBytes) && !read_status(in.bytes(), response)) return std::nullopt;
    if (in.is(5, ProtoWire::kBytes)) response.body = in.bytes();
    const bool client = in.is(kForClient, ProtoWire::kBytes), upstream = in.is(kForUpstream, ProtoWire::kBytes);
    if (!client && !upstream) continue;
    const std::optional<HeaderOption> header = read_header_value(in.bytes());
    if (!header || !is_settable(*header)) return std::nullopt;
    (client ? response.changes_response : response.changes_request) = true;
  }
  if (!in.ok() || (code != kOk && code != kOverLimit)) return std::nullopt;
  response.over_limit = code == kOverLimit;
  return response;
}

bool add_request_fields(ChunkPool& pool, std::string_view message, Fields& to) {
  return add_values(pool, message, kForUpstream, to);
}

bool add_response_fields(ChunkPool& pool, std::string_view message, Fields& to) {
  return add_values(pool, message, kForClient, to);
}

bool add_limit_fields(ChunkPool& pool, const RateLimitResponse& response, std::string_view domain, Fields& to) {
  const std::string_view name = is_plain(response.name) ? response.name : domain;
  const auto add = [&](std::string_view field, const std::string& value) {
    return to.find(field) != Fields::npos || to.add(pool, field, value);
  };
  if (response.reset_s && !add("retry-after", absl::StrCat(*response.reset_s))) return false;
  if (response.requests == 0 || response.window_s == 0) return true;
  const std::string reset = response.reset_s ? absl::StrCat(";t=", *response.reset_s) : "";
  return add("ratelimit-policy", absl::StrCat("\"", name, "\";q=", response.requests, ";w=", response.window_s)) &&
         add("ratelimit", absl::StrCat("\"", name, "\";r=0", reset));
}

}  // namespace sluice

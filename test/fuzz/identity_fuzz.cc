// Any bytes in the fields about the origin of a request: X-Forwarded-For, Forwarded, traceparent, a request's id,
// Accept. Forwarded values are well-formed, and only the trusted proxies are trusted.
//
// Input: one byte for the configuration, then lines, each the number of a field and its value.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/http/message/accept.h"
#include "proxy/http/message/request_id.h"
#include "proxy/http/proxy/client_address.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/forwarded_field.h"
#include "proxy/http/proxy/identity.h"
#include "proxy/tracing/trace_context.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

constexpr std::string_view kNames[] = {"x-forwarded-for", "x-forwarded-proto", "forwarded", "traceparent",
                                       "tracestate",      "x-request-id",      "accept"};

config::Http config_of(uint8_t bits) {
  config::Http config;
  config.trusted_hops = bits & 3;
  if (bits & 4) config.trusted_proxies = {config::Cidr::parse("10.0.0.0/8").value()};
  if (bits & 8) {
    config.request_id.emplace().header = config::FieldName::parse("x-request-id").value();
    config.request_id->accept = bits & 16 ? config::TrustFrom::kAlways : config::TrustFrom::kTrusted;
  }
  config.trace_context = static_cast<config::TraceContext>((bits >> 5 & 3) % 3);
  config.forwarded = bits & 128 ? config::ForwardedFor::kAppend : config::ForwardedFor::kReplace;
  return config;
}

std::string text_of(const ClientIp& address) {
  std::array<char, ClientIp::kTextBytes> room;
  return std::string(address.text(room));
}

size_t count(const Fields& fields, std::string_view name) {
  return static_cast<size_t>(
      std::count_if(fields.begin(), fields.end(), [&](const Fields::Field& field) { return field.name == name; }));
}

void check_ids(const config::Http& config, const Head& head, const RequestIdentity& identity) {
  if (config.request_id) {
    SLUICE_CHECK(count(head.fields, "x-request-id") == 1 && is_request_id(head.fields.value("x-request-id")));
    SLUICE_CHECK(head.fields.text(identity.request_id) == head.fields.value("x-request-id"));
  }
  if (config.trace_context == config::TraceContext::kOff) return;
  const size_t parents = count(head.fields, "traceparent");
  SLUICE_CHECK(parents <= 1 && (parents == 1 || config.trace_context == config::TraceContext::kPass));
  SLUICE_CHECK(parents == 1 || count(head.fields, "tracestate") == 0);
  if (parents == 0) return;
  const auto parent = TraceParent::parse(head.fields.value("traceparent"));
  SLUICE_CHECK(parent && head.fields.value("traceparent").size() == TraceParent::kBytes);
  SLUICE_CHECK(head.fields.text(identity.trace_id) == std::string_view(parent->trace_id.data(), 32));
}

void check(uint8_t bits, std::string_view lines) {
  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  const config::Http config = config_of(bits);
  Head head;
  bool room = true;
  for (; !lines.empty() && room; lines.remove_prefix(std::min(lines.find('\n') + 1, lines.size()))) {
    if (lines.find('\n') == std::string_view::npos) break;
    const std::string_view line = lines.substr(0, lines.find('\n'));
    if (line.empty()) continue;
    room = head.fields.add(pool, kNames[static_cast<uint8_t>(line[0]) % std::size(kNames)], line.substr(1));
  }
  preferred_form(head.fields);
  const ClientIp peer = parse_forwarded_address(bits & 1 ? "10.0.0.1" : "192.0.2.1").value();
  const std::string forwarded_for(head.fields.value("x-forwarded-for"));
  RandomIds ids({1, 2, 3, 4});
  ClaimCounters refused;
  RequestIdentity identity;
  if (!identify(pool, config, peer, ids, refused, head, identity)) return;
  const TrustedProxies proxies(config);
  if (!proxies.trusts(peer)) {
    SLUICE_CHECK(text_of(identity.client) == text_of(peer) && identity.scheme == ForwardedScheme::kNone);
  }
  SLUICE_CHECK(parse_forwarded_address(text_of(identity.client)));
  check_ids(config, head, identity);
  const Origin origin{peer, identity.client, "https", "a.example:1", "edge"};
  if (!add_origin(pool, config, origin, "1.1 sluice", refused, head)) return;
  SLUICE_CHECK(count(head.fields, "x-forwarded-for") == 1 && count(head.fields, "forwarded") == 1);
  SLUICE_CHECK(head.fields.value("x-forwarded-for").ends_with(text_of(peer)));
  SLUICE_CHECK(head.fields.value("x-forwarded-for").starts_with(forwarded_for));
  SLUICE_CHECK(is_forwarded(head.fields.value("forwarded")));
  SLUICE_CHECK(head.fields.value("forwarded").ends_with(";proto=https;host=\"a.example:1\";by=_edge"));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string lines(reinterpret_cast<const char*>(data + 1), size - 1);
  sluice::check(data[0], lines);
  return 0;
}

#include "proxy/http/proxy/request_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>

#include "net/worker.h"
#include "proxy/access_log/access_line.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_rules.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/request_context.h"

namespace sluice {

namespace {

// The route's name or, if it has none, its number, counted from 0 as in messages about the configuration.
std::string_view name_of(const HttpTarget& target, std::span<char, 12> room) {
  if (!target.route->name.empty()) return target.route->name;
  const auto written = std::to_chars(room.data(), room.data() + room.size(), target.index);
  return {room.data(), static_cast<size_t>(written.ptr - room.data())};
}

}  // namespace

RequestLog::RequestLog(const RequestContext& context) {
  if (context.listener().log) started_us_ = context.loop().now_us() & kTimeMask;
}

void RequestLog::note_response(const RequestContext& context) {
  if (started_us_ != 0)
    response_us_ = static_cast<uint32_t>(std::clamp<uint64_t>(context.loop().now_us() - started_us_, 1, UINT32_MAX));
}

void RequestLog::keep_user(RequestContext& context, std::string_view name) {
  if (started_us_ == 0) return;
  std::array<char, KeptValues::kMaxValue> value;
  const size_t size = KeptValues::put(name.substr(0, kMaxUserBytes), value.data());
  (void)context.request().fields.keep(context.pool(), {value.data(), size}, texts_);
}

void RequestLog::keep_fields(RequestContext& context, const Head& response) {
  if (!context.listener().log || !context.listener().log->format().uses_response_fields()) return;
  const config::LogFormat& format = context.listener().log->format();
  std::array<char, (1 + config::LogFormat::kMaxResponseFields) * KeptValues::kMaxValue> values;
  size_t size = KeptValues::put(KeptValues(context.request().fields.text(texts_)).take(), values.data());
  for (const config::TextTemplate::Piece& piece : format.line().pieces()) {
    if (piece.variable != config::TextVariable::kResponseHeader) continue;
    size += KeptValues::put(response.fields.value(piece.text), values.data() + size);
  }
  // Without room in the head, the line lacks these fields.
  (void)context.request().fields.keep(context.pool(), {values.data(), size}, texts_);
}

void RequestLog::write(const RequestContext& context, const RequestOutcome& outcome) const {
  HttpListener& listener = context.listener();
  if (!listener.log) return;
  AccessRecord record;
  record.duration_us = context.loop().now_us() - started_us_;
  record.time_ms = static_cast<int64_t>((context.loop().wall_us() - record.duration_us) / 1000);
  const Fields& fields = context.request().fields;
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = context.client_ip().text(ip);
  record.client_port = context.client_port();
  record.listener = listener.listener->name;
  record.protocol = context.session()->http2() ? "HTTP/2" : "HTTP/1.1";
  if (const Agreement* const agreed = context.session()->agreed()) {
    record.tls = agreed->version;
    record.cipher = agreed->cipher;
    record.server_name = agreed->server_name;
  }
  record.method = context.request().method();
  record.authority = context.original_authority();
  record.path = context.original_path();
  record.status = outcome.status;
  record.reason = http_end_name(context.end());
  std::array<char, kRuleTextBytes> rule_room;
  if (context.broken() != 0) record.detail = describe_rule(rule_text(context.broken()), context.config(), rule_room);
  record.request_bytes = outcome.request_bytes;
  record.response_bytes = outcome.response_bytes;
  record.pinned_bytes = uint64_t{pinned_kib_} * 1024;
  if (response_us_ != 0) record.upstream_us = response_us_;
  std::array<char, 12> index;
  if (context.target()) record.route = name_of(*context.target(), index);
  record.upstream = outcome.upstream;
  record.endpoint = outcome.endpoint;
  record.attempts = outcome.attempts;
  KeptValues kept(fields.text(texts_));
  record.user = kept.take();
  record.grpc_status = outcome.grpc_status;
  record.user_agent = fields.value("user-agent");
  record.request_id = context.request_id();
  record.trace_id = context.trace_id();
  record.span_id = outcome.span_id;
  record.response_fields = kept;
  std::optional<RequestAttributes> facts;
  if (listener.log->uses_facts()) record.facts = &facts.emplace(context.attributes());
  listener.log->write(record);
}

}  // namespace sluice

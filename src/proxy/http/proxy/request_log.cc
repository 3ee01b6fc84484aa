#include "proxy/http/proxy/request_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>

#include "net/worker.h"
#include "proxy/access_log/access_line.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_rules.h"
#include "proxy/http/proxy/http_worker.h"
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
  const RequestAttributes attributes =
      listener.log->uses_facts() ? context.attributes() : context.attributes_but_host_and_path();
  std::array<char, kRuleTextBytes> rule_room;
  std::string_view detail;
  if (context.broken() != 0) detail = describe_rule(rule_text(context.broken()), context.config(), rule_room);
  write(listener,
        {.attributes = attributes,
         .target = context.original_path(),
         .kept = kept(*attributes.fields),
         .route = context.target(),
         .end = context.end(),
         .detail = detail},
        outcome);
}

void RequestLog::write(HttpListener& listener, const LoggedRequest& request, const RequestOutcome& outcome) const {
  Worker& loop = listener.http.worker();
  const RequestAttributes& attributes = request.attributes;
  AccessRecord record;
  record.duration_us = loop.now_us() - started_us_;
  record.time_ms = static_cast<int64_t>((loop.wall_us() - record.duration_us) / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = attributes.client->text(ip);
  record.client_port = attributes.client_port;
  record.listener = attributes.listener;
  record.protocol = attributes.http2 ? "HTTP/2" : "HTTP/1.1";
  if (attributes.agreed) {
    record.tls = attributes.agreed->version;
    record.cipher = attributes.agreed->cipher;
    record.server_name = attributes.agreed->server_name;
  }
  record.method = attributes.method;
  record.authority = attributes.authority;
  record.path = request.target;
  record.status = outcome.status;
  record.reason = http_end_name(request.end);
  record.detail = request.detail;
  record.request_bytes = outcome.request_bytes;
  record.response_bytes = outcome.response_bytes;
  record.pinned_bytes = uint64_t{pinned_kib_} * 1024;
  if (response_us_ != 0) record.upstream_us = response_us_;
  std::array<char, 12> index;
  if (request.route) record.route = name_of(*request.route, index);
  record.upstream = outcome.upstream;
  record.endpoint = outcome.endpoint;
  record.attempts = outcome.attempts;
  KeptValues values(request.kept);
  record.user = values.take();
  record.grpc_status = outcome.grpc_status;
  record.user_agent = attributes.fields->value("user-agent");
  record.request_id = attributes.request_id;
  record.trace_id = attributes.trace_id;
  record.span_id = outcome.span_id;
  record.response_fields = values;
  if (listener.log->uses_facts()) record.facts = &attributes;
  listener.log->write(record);
}

}  // namespace sluice

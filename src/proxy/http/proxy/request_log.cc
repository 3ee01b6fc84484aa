#include "proxy/http/proxy/request_log.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>

#include "proxy/access_log/access_line.h"
#include "proxy/access_log/access_log.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/request_context.h"

namespace sluice {

namespace {

uint64_t monotonic_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// The route's name or, if it has none, its number, counted from 0 as in messages about the configuration.
std::string_view name_of(const HttpTarget& target, std::span<char, 12> room) {
  if (!target.route->name.empty()) return target.route->name;
  const auto written = std::to_chars(room.data(), room.data() + room.size(), target.index);
  return {room.data(), static_cast<size_t>(written.ptr - room.data())};
}

}  // namespace

RequestLog::RequestLog(const RequestContext& context) {
  if (context.listener().log) started_us_ = monotonic_us();
}

void RequestLog::note_response() {
  if (started_us_ != 0)
    response_us_ = static_cast<uint32_t>(std::clamp<uint64_t>(monotonic_us() - started_us_, 1, UINT32_MAX));
}

void RequestLog::keep_fields(RequestContext& context, const Head& response) {
  const config::LogFormat& format = context.listener().log_format;
  if (!context.listener().log || !format.uses_response_fields()) return;
  std::array<char, config::LogFormat::kMaxResponseFields * KeptValues::kMaxValue> values;
  size_t size = 0;
  for (const config::TextTemplate::Piece& piece : format.line().pieces()) {
    if (piece.variable != config::TextVariable::kResponseHeader) continue;
    size += KeptValues::put(response.fields.value(piece.text), values.data() + size);
  }
  // Without room in the head, the line lacks these fields.
  (void)context.request().fields.keep(context.pool(), {values.data(), size}, response_fields_);
}

void RequestLog::write(const RequestContext& context, const RequestOutcome& outcome) const {
  HttpListener& listener = context.listener();
  if (!listener.log) return;
  const std::span<char> room = listener.log->begin();
  if (room.empty()) return;
  AccessRecord record;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record.duration_us = monotonic_us() - started_us_;
  record.time_ms =
      int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - static_cast<int64_t>(record.duration_us / 1000);
  const RequestAttributes attributes = context.attributes();
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = attributes.client->text(ip);
  record.listener = attributes.listener;
  record.protocol = attributes.http2 ? "HTTP/2" : "HTTP/1.1";
  if (attributes.agreed) {
    record.tls = attributes.agreed->version;
    record.cipher = attributes.agreed->cipher;
  }
  record.method = attributes.method;
  record.authority = attributes.authority;
  record.path = context.original_path();
  record.status = outcome.status;
  record.reason = http_end_name(context.end());
  record.request_bytes = outcome.request_bytes;
  record.response_bytes = outcome.response_bytes;
  if (response_us_ != 0) record.upstream_us = response_us_;
  std::array<char, 12> index;
  if (context.target()) record.route = name_of(*context.target(), index);
  record.upstream = outcome.upstream;
  record.endpoint = outcome.endpoint;
  record.attempts = outcome.attempts;
  record.user_agent = attributes.fields->value("user-agent");
  record.request_id = attributes.request_id;
  record.trace_id = attributes.trace_id;
  record.facts = &attributes;
  record.response_fields = KeptValues(attributes.fields->text(response_fields_));
  listener.log->commit(format_access_line(listener.log_format, record, room));
}

}  // namespace sluice

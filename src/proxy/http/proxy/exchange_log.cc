// The access log record of a request.

#include <time.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <span>

#include "net/worker.h"
#include "proxy/access_log/access_line.h"
#include "proxy/access_log/access_log.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"

namespace sluice {

uint64_t Exchange::log_time_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// Keeps the response fields for the log. The response head is gone when the line is written.
void Exchange::keep_response_fields(const Head& head) {
  const config::LogFormat& format = listener_.log_format;
  if (!listener_.log || !format.uses_response_fields()) return;
  std::array<char, config::LogFormat::kMaxResponseFields * KeptValues::kMaxValue> values;
  size_t size = 0;
  for (const config::TextTemplate::Piece& piece : format.line().pieces()) {
    if (piece.variable != config::TextVariable::kResponseHeader) continue;
    size += KeptValues::put(head.fields.value(piece.text), values.data() + size);
  }
  // Without room in the head, the line lacks these fields.
  (void)request_.fields.keep(pool(), {values.data(), size}, response_fields_);
}

void Exchange::log() {
  const std::span<char> room = listener_.log->begin();
  if (room.empty()) return;
  AccessRecord record;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record.duration_us = log_time_us() - started_us_;
  record.time_ms =
      int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - static_cast<int64_t>(record.duration_us / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = client_ip().text(ip);
  record.listener = listener_.listener.name;
  record.protocol = session_->http2() ? "HTTP/2" : "HTTP/1.1";
  if (const Agreement* const agreed = session_->agreed()) {
    record.tls = agreed->version;
    record.cipher = agreed->cipher;
  }
  record.method = request_.method();
  record.authority = original_authority();
  record.path = original_path();
  record.status = status_;
  record.reason = http_end_name(end_);
  record.request_bytes = request_bytes_;
  record.response_bytes = response_bytes_;
  if (response_head_us_ != 0) record.upstream_us = response_head_us_;
  std::array<char, 8> index;
  if (route_) record.route = route_name(index);
  if (to_) record.upstream = to_->config().name;
  if (attempts_ > 0) record.endpoint = to_->endpoint_name(endpoint_);
  record.attempts = attempts_;
  record.user_agent = request_.fields.value("user-agent");
  record.request_id = request_.fields.text(identity_.request_id);
  record.trace_id = request_.fields.text(identity_.trace_id);
  const bool own_text = listener_.log_format.kind() == config::LogFormat::Kind::kText;
  const RequestAttributes attributes = own_text ? facts() : RequestAttributes();
  record.facts = &attributes;
  record.response_fields = KeptValues(request_.fields.text(response_fields_));
  listener_.log->commit(format_access_line(listener_.log_format, record, room));
}

// The route's name or, if it has none, its number, counted from 0 as in messages about the configuration.
std::string_view Exchange::route_name(std::span<char, 8> room) const {
  if (!route_->name.empty()) return route_->name;
  const auto written = std::to_chars(room.data(), room.data() + room.size(), listener_.router.index_of(*route_));
  return {room.data(), static_cast<size_t>(written.ptr - room.data())};
}

}  // namespace sluice

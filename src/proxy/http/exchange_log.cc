// What the access log is told of a request.

#include <time.h>

#include <array>
#include <cstdint>
#include <span>

#include "proxy/http/exchange.h"
#include "proxy/http/http_listener.h"
#include "proxy/http/http_session.h"
#include "proxy/log/access_line.h"
#include "proxy/log/access_log.h"
#include "proxy/upstream/http_upstream.h"

namespace sluice {

uint64_t Exchange::log_time_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

void Exchange::log() {
  const std::span<char> room = listener_.log->begin();
  if (room.empty()) return;
  AccessRecord record;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t duration_us = log_time_us() - started_us_;
  record.time_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - static_cast<int64_t>(duration_us / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = session_->client_ip().text(ip);
  record.listener = listener_.listener.name;
  record.protocol = session_->http2() ? "HTTP/2" : "HTTP/1.1";
  if (session_->agreed()) record.tls = session_->agreed()->version;
  record.method = request_.method();
  record.authority = asked_authority();
  record.path = asked_path();
  record.status = status_;
  record.reason = http_end_name(end_);
  record.request_bytes = request_bytes_;
  record.response_bytes = response_bytes_;
  record.duration_us = duration_us;
  if (response_head_us_ != 0) record.upstream_us = response_head_us_;
  if (to_) record.upstream = to_->config().name;
  if (attempts_ > 0) record.endpoint = to_->endpoint_name(endpoint_);
  record.user_agent = request_.fields.value("user-agent");
  listener_.log->commit(format_access_line(record, room));
}

}  // namespace sluice

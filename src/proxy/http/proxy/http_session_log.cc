// What an HttpSession logs of requests that never became exchanges, and of rules that its client breaks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/access_log/access_line.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_rules.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/log/run_log.h"
#include "proxy/transport/handshakes.h"

namespace sluice {

namespace {

// The method and the target of a request line; empty if it has none.
void read_line(std::string_view line, AccessRecord& record) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/")) return;
  record.method = line.substr(0, first);
  record.path = line.substr(first + 1, last - first - 1);
}

// That is no error of the client's.
bool is_lack_of_memory(const BrokenMessage& message) {
  return message.rule == std::string_view(HttpCodec::kOverMemory);
}

}  // namespace

void HttpSession::on_refused(const BrokenMessage& message) {
  if (is_lack_of_memory(message)) return log_refused(message, "memory");
  log_broken(message);
  log_refused(message, "malformed");
}

void HttpSession::on_failed(const BrokenMessage& message) {
  if (!is_lack_of_memory(message)) log_broken(message);
}

void HttpSession::log_broken(const BrokenMessage& message) {
  static thread_local LogLimit limit;
  const bool ends = !http2() || codec_->status() == HttpCodec::Status::kFailed;
  broken_logged_ = broken_logged_ || ends;
  if (!log_enabled(LogLevel::kInfo) || !log_admits(limit, services_.worker().now_ms())) return;
  std::array<char, kRuleTextBytes> rule_room;
  const std::string_view rule = describe_rule(message.rule, *listener_->config, rule_room);
  std::array<char, ClientIp::kTextBytes> ip_room;
  const std::string_view client = client_ip_.text(ip_room);
  const std::string& name = listener_->listener->name;
  const std::string_view what = !http2() ? "HTTP/1.1 with it failed: "
                                : ends   ? "HTTP/2 with it failed: "
                                         : "a request of HTTP/2 is malformed: ";
  log_line(LogLevel::kInfo,
           absl::StrCat("listener \"", name, "\", client ", client, ": ", what, rule, describe_place(message),
                        left_out_text(limit)),
           {.listener = name, .client = client, .reason = rule});
}

// The end of a connection by an error that log_broken() has not logged: the client is gone, or the response is at
// fault.
void HttpSession::log_failure_of_codec() {
  if (broken_logged_ || codec_->error().empty()) return;
  std::array<char, ClientIp::kTextBytes> room;
  log_client(services_.worker(), *acceptor_->listener().config, client_ip_.text(room),
             absl::StrCat(version_ == Version::kHttp1 ? "HTTP/1.1" : "HTTP/2", " with it failed: ", codec_->error()));
}

// Counts and logs a response to a request that never became an exchange.
void HttpSession::log_refused(const BrokenMessage& message, std::string_view reason) {
  if (message.status != 0) listener_->counters.statuses[message.status / 100].add();
  if (!listener_->log) return;
  AccessRecord record;
  record.time_ms = static_cast<int64_t>(services_.worker().wall_us() / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = client_ip_.text(ip);
  record.client_port = client_port_;
  record.listener = listener_->listener->name;
  record.protocol = http2() ? "HTTP/2" : "HTTP/1.1";
  if (agreed_) {
    record.tls = agreed_->version;
    record.cipher = agreed_->cipher;
    record.server_name = agreed_->server_name;
  }
  record.method = message.method;
  record.authority = message.authority;
  record.path = message.path;
  if (!message.line.empty()) read_line(message.line, record);
  record.status = message.status;
  record.reason = reason;
  std::array<char, kRuleTextBytes> rule_room;
  record.detail = describe_rule(message.rule, *listener_->config, rule_room);
  const size_t path_bytes = std::min(record.path.find('?'), record.path.size());
  const RequestAttributes facts{.path = record.path.substr(0, path_bytes),
                                .query = record.path.substr(std::min(path_bytes + 1, record.path.size())),
                                .authority = record.authority,
                                .method = record.method,
                                .scheme = message.scheme,
                                .client = &client_ip_,
                                .agreed = agreed_.get(),
                                .listener = record.listener,
                                .http2 = http2()};
  record.facts = &facts;
  listener_->log->write(record);
}

}  // namespace sluice

// What the routes of the proxy in http_session_fuzz.cc do besides forwarding: each bit of an input's choice is one
// feature, so that any of them are combined.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/config.h"
#include "sluice/internal/check.h"
#include "test/proxy/auth/token_maker.h"

namespace sluice::fuzz {

/// An unnamed file in memory, which disappears with the process.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    SLUICE_CHECK(fd_ >= 0 && write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

/// Credentials of clients: bob's password is hunter2, and `token` is valid for a hundred years.
struct Credentials {
  const test::TokenMaker maker{"ES256"};
  const MemoryFile users{"bob:{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=\n"}, keys{maker.jwks()};
  const std::string token = "Bearer " + maker.token(R"({"sub":"bob","exp":4900000000})");
};

class HttpFeatures {
 public:
  enum Bit : uint32_t {
    kRetry = 1 << 0,
    kHedge = 1 << 1,
    kSplit = 1 << 2,
    kMirror = 1 << 3,
    kBufferRequests = 1 << 4,
    kBufferResponses = 1 << 5,
    kCompression = 1 << 6,
    kTimeouts = 1 << 7,
    kRewrite = 1 << 8,
    kRedirect = 1 << 9,
    kFields = 1 << 10,
    kIdentity = 1 << 11,
    kAuth = 1 << 12,
    kCors = 1 << 13,
    kErrors = 1 << 14,
    kMaxBody = 1 << 15,
  };

  HttpFeatures(uint32_t bits, const Credentials& credentials) : bits_(bits), credentials_(credentials) {}

  /// Only the routes below /1 and /2 require credentials.
  void add_to(config::Http& http) const {
    for (config::HttpRoute& route : http.routes) {
      const std::string prefix = route.match->path->prefix;
      if (has(kAuth) && (prefix == "/1" || prefix == "/2")) add_auth(route, prefix == "/1");
      if (has(kCors)) add_cors(route);
      if (has(kFields)) add_fields(route.request_headers, route.response_headers);
      if (has(kMaxBody)) route.max_body = config::Size{3000};
      if (has(kTimeouts)) add_timeouts(route);
      if (!route.forward.empty()) {
        add_to_forward(route);
      } else if (has(kRedirect)) {
        route.respond.reset();
        route.redirect = config::Redirect{{.prefix = "/elsewhere"}, 308, "https", "b.test"};
      }
    }
    if (has(kFields)) add_fields(http.request_headers, http.response_headers);
    if (has(kCompression)) http.compression.emplace().min_size.bytes = 2;
    if (has(kIdentity)) add_identity(http);
    if (has(kErrors)) add_errors(http);
  }

 private:
  bool has(Bit bit) const { return (bits_ & bit) != 0; }

  void add_to_forward(config::HttpRoute& route) const {
    using std::chrono::milliseconds;
    if (has(kRetry) || has(kHedge)) {
      config::Retry& retry = route.retry.emplace();
      retry.attempts = 3;
    }
    if (has(kRetry)) {
      using enum config::RetryOn;
      route.retry->on = {kConnectFailure, kRefused, kReset, kTimeout, k5xx, kGrpcUnavailable, kGrpcResourceExhausted};
      route.retry->try_timeout = milliseconds(3000);
      route.retry->max_backoff = milliseconds(50);
    }
    if (has(kHedge)) route.retry->hedge_after = milliseconds(500);
    if (has(kMirror)) route.mirror = {{.to = "http2"}, {.to = "http1"}};
    if (has(kBufferRequests)) route.buffer.emplace().requests.bytes = size_t{64} * 1024;
    if (has(kBufferResponses)) {
      if (!route.buffer) route.buffer.emplace();
      route.buffer->responses.bytes = size_t{256} * 1024;
    }
    if (has(kRewrite)) {
      config::Rewrite& rewrite = route.rewrite.emplace();
      rewrite.host = "b.test";
      rewrite.regex = config::Regex::parse("/([^/]*)/(.*)").value();
      rewrite.substitution = R"(/\2/\1)";
    }
    if (has(kSplit)) route.split = {{route.forward, 2}, {"http1", 1}, {"http2", 1}, {"closed", 0}};
    if (has(kSplit)) route.forward.clear();
  }
  void add_auth(config::HttpRoute& route, bool basic) const {
    config::Auth& auth = route.auth.emplace();
    if (basic) {
      auth.basic.emplace().users_file = credentials_.users.path();
      return;
    }
    config::JwtAuth& jwt = auth.jwt.emplace();
    jwt.jwks_file = credentials_.keys.path();
    jwt.cookie = "token";
    jwt.claims = {{.claim = "sub", .header = field("x-sub")}};
    auth.forward = true;
  }
  static void add_cors(config::HttpRoute& route) {
    config::Cors& cors = route.cors.emplace();
    cors.origins = {"https://a.test", "https://*.b.test"};
    cors.methods = {"GET", "PUT"};
    cors.headers = {field("x-a")};
    cors.expose = {field("x-b"), field("x-c")};
    cors.credentials = true;
  }
  static void add_timeouts(config::HttpRoute& route) {
    using std::chrono::seconds;
    route.request_timeout = seconds(4);
    route.stream_idle_timeout = seconds(3);
    route.response_timeout = seconds(2);
  }
  static void add_fields(std::vector<config::FieldChange>& request, std::vector<config::FieldChange>& response) {
    request = {{.name = field("x-set"), .set = text("%{method} %{path} %{client_ip}")},
               {.name = field("x-many"), .remove = true},
               {.name = field("x-a"), .add = text("%{host}%{header:cookie}")}};
    response = {{.name = field("server"), .set = text("fuzz")}, {.name = field("etag"), .remove = true}};
  }
  static void add_identity(config::Http& http) {
    http.request_id = {field("x-request-id"), config::TrustFrom::kAlways, true};
    http.trace_context = config::TraceContext::kMake;
    http.forwarded = config::ForwardedFor::kAppend;
    http.trusted_proxies = {config::Cidr::parse("127.0.0.0/8").value()};
  }
  static void add_errors(config::Http& http) {
    config::ErrorBody& page = http.errors.emplace_back();
    page.status = {config::StatusPattern::parse("4xx").value(), config::StatusPattern::parse("5xx").value()};
    page.body = config::ErrorText::parse("%{status} %{reason}: %{message} (%{request_id})").value();
  }

  static config::FieldName field(std::string_view name) { return config::FieldName::parse(name).value(); }
  static config::TextTemplate text(std::string_view text) { return config::TextTemplate::parse(text).value(); }

  const uint32_t bits_;
  const Credentials& credentials_;
};

}  // namespace sluice::fuzz

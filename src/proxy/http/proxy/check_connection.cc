#include "proxy/http/proxy/check_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/h1/http1_client.h"
#include "proxy/http/proxy/grpc_health.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/transport/handshakes.h"
#include "proxy/transport/proxy_protocol.h"
#include "proxy/transport/upstream_socket.h"

namespace sluice {

namespace {

// How much of a response body is inspected.
constexpr size_t kMaxBodyBytes = size_t{64} * 1024;

constexpr size_t kSendMark = size_t{64} * 1024;

// Beyond the budget if necessary: a shortage of memory here must not make an endpoint look dead.
Buffer small_copy(ChunkPool& pool, std::span<const std::byte> bytes) {
  Buffer copy;
  copy.append_copy_beyond_budget(pool, bytes);
  return copy;
}

}  // namespace

CheckConnection::Shared::Shared(HttpWorker& on, UpstreamState& of, Owner& check_owner)
    : worker(on),
      upstream(of),
      owner(check_owner),
      sessions(of.size()),
      http2_shared{on.worker().pool(), http2, http2_counters} {
  http1.limits = Http1Limits::of_responses();
}

CheckConnection::CheckConnection(Shared& shared, uint32_t endpoint)
    : HttpConnection(shared.worker), shared_(shared), endpoint_(endpoint) {
  ++shared_.existing;
}

CheckConnection::~CheckConnection() { --shared_.existing; }

// ---- Connecting ----

void CheckConnection::begin() {
  address_ = shared_.upstream.address(endpoint_);
  if (shared_.config().port != 0) address_ = address_.with_port(static_cast<uint16_t>(shared_.config().port));
  const int fd = open_upstream_socket(upstream(), address_.family());
  if (fd < 0) {
    finish(Outcome::kNotMade, absl::StrCat("cannot open a socket: ", std::strerror(errno)));
    return on_gone();
  }
  arm_timer(services_.worker().now_ms() + config::milliseconds(shared_.config().timeout));
  transport_.connect(fd, address_.data(), address_.length());
}

void CheckConnection::on_connected(Transport&, int error) {
  if (finished_) return;
  if (error != 0) {
    const bool ours = connect_error_of(error) == ConnectError::kLocal;
    finish(ours ? Outcome::kNotMade : Outcome::kFailed, absl::StrCat("cannot connect: ", std::strerror(error)));
    return leave();
  }
  send_proxy_header();
  if (!upstream().tls && !upstream().alts) return speak_http();
  Handshaking& handshaking = transport_.prepare_handshake();
  generation_ = make_endpoint_handshake(shared_.upstream, endpoint_, services_.handshakers(), shared_.sessions,
                                        transport_.socket(), handshaking);
  transport_.begin_handshake();
}

// An endpoint that expects a PROXY header takes a connection without one for an attack. This header says that the
// connection is the proxy's own.
void CheckConnection::send_proxy_header() {
  const config::ProxyHeaderOut version = upstream().send_proxy_protocol;
  if (version == config::ProxyHeaderOut::kOff || shared_.config().port != 0) return;
  std::array<std::byte, kMaxWrittenProxyBytes> header;
  const PeerAddress nobody;
  const size_t bytes = version == config::ProxyHeaderOut::kV1 ? write_proxy_v1(header, nobody, nobody)
                                                              : write_proxy_v2(header, nobody, nobody);
  transport_.send(small_copy(services_.worker().pool(), std::span(header).first(bytes)));
}

void CheckConnection::on_secured(Transport&, const Agreement& agreement) {
  if (finished_) return;
  // The ALPN list of an upstream that serves L4 listeners may offer protocols that the checks do not speak.
  if (sends_request() && !speaks_http2() && agreement.alpn == "h2") {
    fail("it negotiated h2, but the check speaks HTTP/1.1");
    return leave();
  }
  speak_http();
  if (!finished_) transport_.release_arrived();
}

void CheckConnection::on_insecure(Transport&, std::string_view error) {
  fail(describe_failure(upstream(), error));
  leave();
}

void CheckConnection::on_session(Transport&, bssl::UniquePtr<SSL_SESSION> session) {
  shared_.sessions.put(endpoint_, generation_, std::move(session));
}

// ---- The request ----

void CheckConnection::speak_http() {
  if (!sends_request()) {
    pass();
    return leave();
  }
  // In HTTP/2 the request follows when the SETTINGS of the endpoint are here.
  if (speaks_http2()) return speak(make_codec<Http2Codec>(shared_.http2_shared));
  speak(make_codec<Http1Client>(services_.worker().pool(), shared_.http1, shared_.http1_counters));
  send_request();
}

void CheckConnection::send_request() {
  stream_ = codec_->open_stream(*this);
  if (!stream_) return fail("it closed before the request was sent");
  if (!speaks_http2()) codec_->drain();  // Connection: close.
  Head head;
  if (!make_request(head)) return finish(Outcome::kNotMade, "its request is longer than a head can be");
  stream_->send_head(head, !shared_.config().grpc);
  if (shared_.config().grpc) {
    const std::string message = grpc_health_request(shared_.config().grpc->service);
    stream_->send_body(small_copy(services_.worker().pool(), std::as_bytes(std::span(message))), true);
  }
  wake();
}

bool CheckConnection::make_request(Head& head) const {
  ChunkPool& pool = services_.worker().pool();
  const auto& http = shared_.config().http;
  const config::Address& address = shared_.upstream.address(endpoint_);
  const bool is_unix = address.kind() == config::Address::Kind::kUnix;
  std::string authority = http ? http->host : std::string();
  if (authority.empty()) authority = is_unix ? "localhost" : address.text();
  const bool secure = upstream().tls || upstream().alts;
  if (!head.set(pool, Head::Part::kMethod, http ? "GET" : "POST") ||
      !head.set(pool, Head::Part::kScheme, secure ? "https" : "http") ||
      !head.set(pool, Head::Part::kAuthority, authority) ||
      !head.set(pool, Head::Part::kPath, http ? std::string_view(http->path) : kGrpcHealthPath) ||
      !head.fields.add(pool, "user-agent", "sluice-health-check")) {
    return false;
  }
  return http || (head.fields.add(pool, "te", "trailers") && head.fields.add(pool, "content-type", "application/grpc"));
}

// ---- The response ----

void CheckConnection::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200 || finished_) return;
  responded_ = true;
  if (const auto& http = shared_.config().http) {
    if (!is_expected(head.status)) return fail(absl::StrCat("it responded with ", head.status));
    if (http->body.empty()) return pass();
    if (end) check_body();
    return;
  }
  if (head.status != 200) return fail(absl::StrCat("it responded with ", head.status, ", but gRPC requires 200"));
  if (end) check_call(head.fields.value("grpc-status"));
}

bool CheckConnection::is_expected(uint16_t status) const {
  const std::vector<uint32_t>& expected = shared_.config().http->status;
  if (expected.empty()) return status < 400;
  return std::find(expected.begin(), expected.end(), status) != expected.end();
}

void CheckConnection::on_body(HttpStream&, Buffer&& body, bool end) {
  if (finished_) return body.clear();
  body_.append(std::move(body));
  if (body_.size() > kMaxBodyBytes) body_.truncate(kMaxBodyBytes);
  const bool full = body_.size() == kMaxBodyBytes;
  if (shared_.config().http) {
    if (end || full || body_.find(shared_.config().http->body) != Buffer::npos) check_body();
  } else if (end || full) {
    fail("its response is not a grpc.health.v1.HealthCheckResponse");
  }
}

void CheckConnection::on_trailers(HttpStream&, Fields&& trailers) {
  if (finished_) return;
  shared_.config().http ? check_body() : check_call(trailers.value("grpc-status"));
}

void CheckConnection::check_body() {
  const std::string& expected = shared_.config().http->body;
  if (body_.find(expected) != Buffer::npos) return pass();
  fail(absl::StrCat("its response does not contain \"", expected, "\""));
}

void CheckConnection::check_call(std::string_view status) {
  if (status != "0") {
    constexpr std::string_view kUnimplemented = "12", kNotFound = "5";
    return fail(absl::StrCat("grpc-status ", status.empty() ? "is missing" : status,
                             status == kUnimplemented ? ": it has no grpc.health.v1.Health"
                             : status == kNotFound    ? ": its health service does not know that name"
                                                      : ""));
  }
  const std::optional<ServingStatus> serving = read_grpc_health_response(body_);
  if (!serving) return fail("its response is not a grpc.health.v1.HealthCheckResponse");
  if (*serving == ServingStatus::kServing) return pass();
  fail(absl::StrCat("its health service reports ", serving_status_name(*serving)));
}

void CheckConnection::on_reset(HttpStream&, ResetReason) {
  fail(responded_ ? "it ended the stream during its response" : "it ended the stream before it responded");
}

// ---- The end ----

void CheckConnection::finish(Outcome outcome, std::string_view why) {
  if (std::exchange(finished_, true)) return;
  passed_ = outcome == Outcome::kPassed;
  body_.clear();
  if (stream_) std::exchange(stream_, nullptr)->release();
  if (codec_) wake();  // leave() follows when the codec has finished its current call.
  shared_.owner.on_checked(*this, outcome, why);
}

// Closes the connection. Must not be called from within the codec.
void CheckConnection::leave() {
  if (ending()) return;
  if (!codec_ && !transport_.secured() && transport_.queued() == 0) return close();
  const bool heard = passed_ || responded_;
  // A queued TLS alert shows the endpoint what was wrong.
  heard || transport_.queued() > 0 ? linger(/*cut=*/!heard) : reset();
}

void CheckConnection::cancel() {
  finished_ = true;
  if (stream_) std::exchange(stream_, nullptr)->release();
  reset();
}

void CheckConnection::on_pumped() {
  if (finished_) return leave();
  if (!stream_ && speaks_http2() && static_cast<Http2Codec&>(*codec_).greeted()) send_request();
}

void CheckConnection::on_codec_done() {
  if (!finished_) fail(codec_->error().empty() ? "it closed" : codec_->error());
  leave();
}

void CheckConnection::on_end(Transport& transport, bool truncated) {
  if (!finished_ && !codec_) {
    fail("it closed");
    return leave();
  }
  HttpConnection::on_end(transport, truncated);
}

void CheckConnection::on_error(Transport& transport, int error) {
  if (!finished_) fail(absl::StrCat("the connection broke: ", std::strerror(error)));
  HttpConnection::on_error(transport, error);
}

void CheckConnection::on_timer() {
  if (lingering()) return linger_timeout();
  finish(Outcome::kTimedOut,
         absl::StrCat("it did not ", stage(), " within ", config::print_duration(shared_.config().timeout)));
  leave();
}

// What the endpoint should have done when the check timed out.
const char* CheckConnection::stage() const {
  if (transport_.in_handshake()) return "finish the handshake";
  if (!codec_) return "accept the connection";
  if (!stream_) return "send its SETTINGS";
  return responded_ ? "finish its response" : "respond";
}

void CheckConnection::on_gone() {
  if (!finished_) fail("the connection ended");
  shared_.owner.on_check_gone(*this);
  services_.worker().defer([](void* self) { delete static_cast<CheckConnection*>(self); }, this);
}

size_t CheckConnection::send_mark() const { return kSendMark; }

}  // namespace sluice

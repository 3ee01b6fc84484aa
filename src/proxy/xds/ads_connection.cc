#include "proxy/xds/ads_connection.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/message/grpc_message.h"
#include "proxy/transport/handshakes.h"
#include "proxy/transport/upstream_socket.h"

namespace sluice::xds {
namespace {

constexpr size_t kSendMark = size_t{64} * 1024;

std::string describe_trailers(const Fields& trailers) {
  const std::optional<uint8_t> status = read_grpc_status(trailers.value("grpc-status"));
  const std::string_view message = trailers.value("grpc-message");
  return absl::StrCat("it ended the stream: ", status ? describe_grpc_status(*status) : "without a status",
                      message.empty() ? "" : ": ", message);
}

}  // namespace

AdsConnection::AdsConnection(AdsServices& services, Owner& owner, uint32_t endpoint, std::string_view path)
    : HttpConnection(services), ads_(services), owner_(owner), endpoint_(endpoint), path_(path) {}

void AdsConnection::begin() {
  address_ = ads_.upstream.address(endpoint_);
  const int fd = open_upstream_socket(ads_.upstream.config(), address_.family());
  if (fd < 0) {
    why_ = absl::StrCat("cannot open a socket: ", std::strerror(errno));
    return on_gone();
  }
  arm_timer(services_.worker().now_ms() + kConnectTimeoutMs);
  transport_.connect(fd, address_.data(), address_.length());
}

void AdsConnection::on_connected(Transport&, int error) {
  if (!why_.empty()) return;
  if (error != 0) {
    fail(absl::StrCat("cannot connect: ", std::strerror(error)));
    return leave();
  }
  if (!ads_.upstream.config().tls) return speak(make_codec<Http2Codec>(ads_.http2_shared));
  Handshaking& handshaking = transport_.prepare_handshake();
  generation_ = make_endpoint_handshake(ads_.upstream, endpoint_, services_.handshakers(), ads_.sessions,
                                        transport_.socket(), handshaking);
  transport_.begin_handshake();
}

void AdsConnection::on_secured(Transport&, const Agreement&) {
  if (!why_.empty()) return;
  speak(make_codec<Http2Codec>(ads_.http2_shared));
  transport_.release_arrived();
}

void AdsConnection::on_insecure(Transport&, std::string_view error) {
  fail(describe_failure(ads_.upstream.config(), error));
  leave();
}

void AdsConnection::on_session(Transport&, bssl::UniquePtr<SSL_SESSION> session) {
  ads_.sessions.put(endpoint_, generation_, std::move(session));
}

// ---- The stream ----

void AdsConnection::open_stream() {
  stream_ = codec_->open_stream(*this);
  Head head;
  if (!stream_ || !make_request(head)) return fail("it opens no stream");
  stream_->send_head(head, /*end=*/false);
  owner_.on_open(*this);
  wake();
}

bool AdsConnection::make_request(Head& head) const {
  ChunkPool& pool = services_.worker().pool();
  const config::Upstream& config = ads_.upstream.config();
  const std::string name = config.tls && !config.tls->server_name.empty()    ? config.tls->server_name
                           : address_.kind() == config::Address::Kind::kUnix ? "localhost"
                                                                             : address_.text();
  return head.set(pool, Head::Part::kMethod, "POST") &&
         head.set(pool, Head::Part::kScheme, config.tls ? "https" : "http") &&
         head.set(pool, Head::Part::kAuthority, name) && head.set(pool, Head::Part::kPath, path_) &&
         head.fields.add(pool, "content-type", "application/grpc") && head.fields.add(pool, "te", "trailers") &&
         head.fields.add(pool, "user-agent", "sluice");
}

void AdsConnection::send(std::string_view message) {
  if (!stream_) return;
  const std::array prefix = grpc_prefix(static_cast<uint32_t>(message.size()));
  Buffer body;
  ChunkPool& pool = services_.worker().pool();
  body.append_copy_beyond_budget(pool, std::as_bytes(std::span(prefix)));
  body.append_copy_beyond_budget(pool, std::as_bytes(std::span(message)));
  stream_->send_body(std::move(body), /*end=*/false);
  wake();
}

void AdsConnection::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200 || !why_.empty()) return;
  if (head.status != 200) return fail(absl::StrCat("it responded with ", head.status, ", but gRPC requires 200"));
  if (end) fail(describe_trailers(head.fields));
}

void AdsConnection::on_body(HttpStream&, Buffer&& body, bool end) {
  if (!why_.empty()) return body.clear();
  received_.append(body.to_string());
  body.clear();
  read_messages();
  if (end && why_.empty()) fail("it ended the stream without a status");
}

void AdsConnection::read_messages() {
  std::string_view rest = received_;
  while (rest.size() >= kGrpcPrefixBytes) {
    size_t size = 0;
    for (size_t i = 1; i < kGrpcPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(rest[i]);
    if (rest[0] != 0) return fail("it sent a compressed message, which was not requested");
    if (size > kMaxMessageBytes) {
      return fail(
          absl::StrCat("it sent a message of ", size, " bytes; the longest that is read has ", kMaxMessageBytes));
    }
    if (rest.size() - kGrpcPrefixBytes < size) break;
    const absl::Status read = owner_.on_message(rest.substr(kGrpcPrefixBytes, size));
    if (!read.ok()) return fail(std::string(read.message()));
    rest.remove_prefix(kGrpcPrefixBytes + size);
  }
  received_.erase(0, received_.size() - rest.size());
  if (received_.empty()) received_.shrink_to_fit();
}

void AdsConnection::on_trailers(HttpStream&, Fields&& trailers) {
  if (why_.empty()) fail(describe_trailers(trailers));
}

void AdsConnection::on_reset(HttpStream&, ResetReason) { fail("it reset the stream"); }

// ---- The end ----

void AdsConnection::fail(std::string why) {
  if (!why_.empty()) return;
  why_ = std::move(why);
  received_.clear();
  if (stream_) std::exchange(stream_, nullptr)->release();
  if (codec_) wake();  // leave() follows when the codec has finished its current call.
}

void AdsConnection::end(std::string_view why) {
  fail(std::string(why));
  if (!ending()) reset();
}

void AdsConnection::leave() {
  if (!ending()) reset();
}

void AdsConnection::on_pumped() {
  if (!why_.empty()) return leave();
  if (!stream_ && static_cast<Http2Codec&>(*codec_).greeted()) open_stream();
}

void AdsConnection::on_codec_done() {
  fail(codec_->error().empty() ? "it closed the connection" : std::string(codec_->error()));
  leave();
}

void AdsConnection::on_end(Transport& transport, bool truncated) {
  if (!codec_) {
    fail("it closed the connection");
    return leave();
  }
  HttpConnection::on_end(transport, truncated);
}

void AdsConnection::on_error(Transport& transport, int error) {
  fail(absl::StrCat("the connection broke: ", std::strerror(error)));
  HttpConnection::on_error(transport, error);
}

void AdsConnection::on_timer() {
  if (lingering()) return linger_timeout();
  if (stream_) return;
  fail(absl::StrCat("it opened no stream within ", kConnectTimeoutMs, " ms"));
  leave();
}

void AdsConnection::on_gone() {
  fail("the connection ended");
  owner_.on_lost(*this, why_);
  services_.worker().defer([](void* self) { delete static_cast<AdsConnection*>(self); }, this);
}

size_t AdsConnection::send_mark() const { return kSendMark; }

}  // namespace sluice::xds

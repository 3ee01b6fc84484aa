#include "proxy/admin/admin_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/handshaker_text.h"
#include "alts_like/tls_handshake.h"
#include "net/worker.h"
#include "proxy/admin/request_origin.h"
#include "proxy/common/peer_address.h"
#include "proxy/config/model/units.h"
#include "proxy/http/h1/http1_server.h"
#include "proxy/http/message/http_date.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

constexpr size_t kSendMark = size_t{64} * 1024;
// How much of a response is in chunks at a time.
constexpr size_t kPieceBytes = size_t{32} * 1024;
// How often the progress of a slow client is checked.
constexpr uint64_t kProgressPollMs = 1000;
constexpr uint64_t kWorkPollMs = 100;
// Of the name in a client's certificate.
constexpr size_t kNameBytes = 120;

// For a client that speaks HTTP without TLS.
constexpr std::string_view kUseHttps =
    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 36\r\nconnection: "
    "close\r\n\r\nthe admin listener expects https://\n";
static_assert(kUseHttps.size() - kUseHttps.find("\r\n\r\n") - 4 == 36);

// The peer of a Unix socket is a process.
std::string peer_text(int fd) {
  const PeerAddress peer = PeerAddress::peer_of(fd);
  if (peer.family() != AF_UNIX) return text_of(peer);
  ucred who{};
  socklen_t length = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return "a process";
  return absl::StrCat("process ", who.pid, " of user ", who.uid);
}

}  // namespace

AdminConnection* AdminConnection::start(AdminServices& services, int fd, int family) {
  auto* const connection = new AdminConnection(services, family);
  connection->transport_.adopt(fd, family);
  if (services.settings.tls && family != AF_UNIX) {
    connection->shake_hands();
  } else {
    connection->begin_http();
  }
  return connection;
}

void AdminConnection::begin_http() {
  speak(make_codec<Http1Server>(services_.worker().pool(), admin_.http1, admin_.http1_counters, *this));
  if (drains_) drain();
}

AdminConnection::AdminConnection(AdminServices& services, int family)
    : HttpConnection(services), admin_(services), family_(family), idle_since_ms_(services.worker().now_ms()) {}

AdminConnection::~AdminConnection() = default;

uint64_t AdminConnection::waits_since_ms() const {
  if (exchange_ == Exchange::kWaiting || exchange_ == Exchange::kResponding) return UINT64_MAX;
  return began_ms_ != 0 ? began_ms_ : idle_since_ms_;
}

// ---- TLS ----

// The thread signs with its keys itself: it has nothing else to do that must not wait.
void AdminConnection::shake_hands() {
  const AdminSettings& settings = admin_.settings;
  tls_rules_ = settings.tls_rules;
  transport_.prepare_handshake().handshake =
      std::make_unique<TlsHandshake>(settings.tls.get(), TlsHandshake::Side::kServer);
  arm_timer(idle_since_ms_ + config::milliseconds(settings.config.tls->handshake_timeout));
  transport_.await_handshake(Buffer());
}

void AdminConnection::on_secured(Transport&, const Agreement& agreement) {
  admin_.counters.tls_handshakes.add();
  const std::string& name = agreement.peer_names.empty() ? agreement.common_name : agreement.peer_names.front();
  certificate_name_ = printable(name, kNameBytes);
  idle_since_ms_ = services_.worker().now_ms();
  begin_http();
  transport_.release_arrived();
}

void AdminConnection::on_insecure(Transport&, std::string_view error) {
  if (error.empty()) return close();  // It has left.
  tls_failed(error);
  if (error == TlsHandshake::kPlainHttp) {
    Buffer response;
    response.append_copy_beyond_budget(services_.worker().pool(), kUseHttps);
    transport_.send(std::move(response));
  }
  linger(/*cut=*/false);
}

void AdminConnection::on_record_error(Transport& transport, std::string_view error) {
  tls_failed(error);
  HttpConnection::on_record_error(transport, error);
}

void AdminConnection::tls_failed(std::string_view error) {
  admin_.counters.tls_failures.add();
  log_tls(error);
}

// Anyone who can connect can make failures, so they are limited as those of clients are.
void AdminConnection::log_tls(std::string_view error) const {
  static thread_local LogLimit limit;
  if (!log_enabled(LogLevel::kInfo) || !log_admits(limit, services_.worker().now_ms())) return;
  log_line(LogLevel::kInfo, absl::StrCat("admin: TLS with ", peer_text(transport_.socket().fd()), " failed: ", error,
                                         left_out_text(limit)));
}

void AdminConnection::handshake_timeout() {
  const uint64_t took_ms = services_.worker().now_ms() - idle_since_ms_;
  log_tls(absl::StrCat("the handshake was not complete after ", config::print_duration(config::Duration(took_ms)),
                       ", waiting for ", transport_.awaited()));
  admin_.counters.handshake_timeouts.add();
  reset();
}

bool AdminConnection::follows_rules() const {
  return !admin_.settings.tls || family_ == AF_UNIX || tls_rules_ == admin_.settings.tls_rules;
}

// ---- The request ----

StreamReceiver& AdminConnection::on_stream(HttpStream& stream) {
  stream_ = &stream;
  exchange_ = Exchange::kReading;
  had_request_ = true;
  request_ = {};
  if (began_ms_ == 0) began_ms_ = services_.worker().now_ms();
  if (!follows_rules()) static_cast<Http1Server&>(*codec_).end_after_request();
  return *this;
}

void AdminConnection::on_head(HttpStream&, Head&& head, bool end) {
  admin_.counters.requests.add();
  request_.method = head.method();
  request_.accept = head.fields.value("accept");
  const std::string_view path = head.path();
  const size_t query = path.find('?');
  request_.path = path.substr(0, query);
  if (query != std::string_view::npos) request_.query = path.substr(query + 1);
  const AdminSettings& settings = admin_.settings;
  if (!follows_rules()) {
    admin_.counters.insecure.add();
    return refuse(403, "admin.tls has changed since this connection began: make another one");
  }
  if (settings.token && !settings.token->admits(head.fields) && !admin_.pages.is_public(request_)) {
    admin_.counters.unauthorized.add();
    return refuse(401, "this needs the token of admin.token_file, as `Authorization: Bearer TOKEN`");
  }
  // A page of another site, in a browser on this machine, could send requests, too. A forwarded port leads it to a Unix
  // socket. No page can send the token. With TLS it cannot make this listener appear to be its own site, for which
  // there is no certificate here, so any name will do as the host.
  const bool secured = transport_.secured();
  if (!settings.token && !secured && !is_own_host(head.authority())) {
    admin_.counters.refused_hosts.add();
    return refuse(
        403, "without admin.token_file and admin.tls, requests must name an IP address or localhost as their host");
  }
  if (is_cross_site(head) || (!settings.token && is_other_origin(head, secured))) {
    admin_.counters.refused_origins.add();
    return refuse(403,
                  "a browser has sent this for the page of another site, which may not use the admin listener; a field "
                  "Origin must be the scheme and the host of the request");
  }
  if (request_.method != "GET" && request_.method != "HEAD") {
    request_.peer = peer_text(transport_.socket().fd());
    if (!certificate_name_.empty()) absl::StrAppend(&request_.peer, " (", certificate_name_, ")");
  }
  if (end) request_complete();
}

void AdminConnection::on_body(HttpStream&, Buffer&& body, bool end) {
  if (exchange_ != Exchange::kReading) return body.clear();
  if (request_.body.size() + body.size() > kMaxBodyBytes) {
    admin_.counters.too_large.add();
    return refuse(413, absl::StrCat("the body of a request may have ", kMaxBodyBytes, " bytes"));
  }
  request_.body += body.to_string();
  if (end) request_complete();
}

void AdminConnection::on_trailers(HttpStream&, Fields&&) {
  if (exchange_ == Exchange::kReading) request_complete();
}

void AdminConnection::request_complete() {
  if (!admin_.pages.needs_figures(request_)) return respond();
  exchange_ = Exchange::kWaiting;
  admin_.owner.await_figures(*this);
}

void AdminConnection::on_reset(HttpStream&, ResetReason) {
  admin_.owner.forget(*this);
  end_exchange();
}

// ---- The response ----

void AdminConnection::respond() { send(admin_.pages.respond(request_)); }

void AdminConnection::refuse(uint16_t status, std::string_view why) {
  send({.status = status, .body = absl::StrCat(why, "\n")});
}

// A client that has left, or has closed its sending side, gets no response: nobody else would end the work.
bool AdminConnection::client_left() const {
  pollfd ended{.fd = transport_.socket().fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&ended, 1, 0) == 1;
}

void AdminConnection::poll_work() {
  if (client_left()) return reset();
  std::optional<AdminResponse> response = work_->poll(services_.worker().now_ms());
  if (!response) return;
  work_.reset();
  send(*std::move(response));
}

void AdminConnection::send(AdminResponse response) {
  if (response.work) {
    work_ = std::move(response.work);
    exchange_ = Exchange::kWaiting;
    return set_timer();
  }
  if (!admin_.take_response_bytes(response.body.size())) {
    admin_.counters.refused_memory.add();
    response = {.status = 503, .body = "too much output waits for slow clients; try again\n"};
    if (!admin_.take_response_bytes(response.body.size())) return reset();
  }
  exchange_ = Exchange::kResponding;
  body_ = std::move(response.body);
  sent_ = 0;
  ChunkPool& pool = services_.worker().pool();
  Head head;
  head.status = response.status;
  head.own = true;
  bool fits = head.fields.add(pool, "content-type", response.content_type) &&
              head.fields.add(pool, "content-length", absl::StrCat(body_.size())) &&
              head.fields.add(pool, "date", http_date()) && head.fields.add(pool, "cache-control", "no-store") &&
              head.fields.add(pool, "x-content-type-options", "nosniff");
  if (!response.allow.empty()) fits = fits && head.fields.add(pool, "allow", response.allow);
  if (!response.policy.empty()) {
    fits = fits && head.fields.add(pool, "content-security-policy", response.policy) &&
           head.fields.add(pool, "referrer-policy", "no-referrer") && head.fields.add(pool, "vary", "accept");
  }
  if (response.status == 401) fits = fits && head.fields.add(pool, "www-authenticate", "Bearer realm=\"sluice\"");
  if (!fits) return reset();
  const bool no_body = body_.empty() || request_.method == "HEAD";
  if (no_body) sent_ = body_.size();
  stream_->send_head(head, no_body);
  send_more();
  wake();
}

// A part of the response at a time, so that what waits for a slow client is text and not chunks, which are few.
void AdminConnection::send_more() {
  while (sent_ < body_.size() && stream_->queued() < kPieceBytes) {
    const std::string_view piece = std::string_view(body_).substr(sent_, kPieceBytes);
    Buffer bytes;
    bytes.append_copy_beyond_budget(services_.worker().pool(), piece);
    sent_ += piece.size();
    stream_->send_body(std::move(bytes), sent_ == body_.size());
  }
}

void AdminConnection::on_drained(HttpStream&) {
  if (exchange_ == Exchange::kResponding) send_more();
}

void AdminConnection::end_exchange() {
  if (exchange_ == Exchange::kResponding) admin_.return_response_bytes(body_.size());
  exchange_ = Exchange::kNone;
  work_.reset();
  body_ = {};
  sent_ = 0;
  began_ms_ = 0;
  idle_since_ms_ = services_.worker().now_ms();
  if (stream_) std::exchange(stream_, nullptr)->release();
}

void AdminConnection::on_pumped() {
  if (ending()) return;
  if (exchange_ == Exchange::kResponding && sent_ == body_.size() && stream_->sent_all()) {
    end_exchange();
    wake();  // The next request may have arrived.
  }
  if (began_ms_ == 0 && codec_->mid_head()) began_ms_ = services_.worker().now_ms();
  set_timer();
}

// ---- Times ----

void AdminConnection::set_timer() {
  const config::Admin& config = admin_.settings.config;
  const uint64_t now = services_.worker().now_ms();
  if (transport_.queued() > 0)
    return arm_timer(now + std::min(config::milliseconds(config.send_timeout), kProgressPollMs));
  if (work_) return arm_timer(now + kWorkPollMs);
  if (exchange_ == Exchange::kWaiting || exchange_ == Exchange::kResponding) return arm_timer(now + kProgressPollMs);
  if (began_ms_ != 0) return arm_timer(began_ms_ + config::milliseconds(config.header_timeout));
  arm_timer(idle_since_ms_ + config::milliseconds(config.idle_timeout));
}

void AdminConnection::on_timer() {
  if (lingering()) return linger_timeout();
  if (!has_codec()) return handshake_timeout();
  if (work_) {
    poll_work();
    if (ending() || lingering()) return;
  }
  const config::Admin& config = admin_.settings.config;
  const uint64_t now = services_.worker().now_ms();
  const auto is_over = [&](uint64_t since_ms, config::Duration limit) {
    return now >= since_ms + config::milliseconds(limit);
  };
  if (transport_.queued() > 0) {
    check_progress();
    if (is_over(last_sent_ms(), config.send_timeout)) {
      admin_.counters.send_timeouts.add();
      return reset();
    }
  } else if (exchange_ == Exchange::kReading || (exchange_ == Exchange::kNone && began_ms_ != 0)) {
    if (is_over(began_ms_, config.header_timeout)) {
      admin_.counters.header_timeouts.add();
      return reset();
    }
  } else if (exchange_ == Exchange::kNone && is_over(idle_since_ms_, config.idle_timeout)) {
    admin_.counters.idle_timeouts.add();
    return linger(/*cut=*/false);
  }
  set_timer();
}

// ---- The end ----

void AdminConnection::drain() {
  if (ending()) return;
  if (!has_codec()) {
    drains_ = true;
    return;
  }
  had_request_ ? codec_->drain() : static_cast<Http1Server&>(*codec_).end_after_request();
  wake();
}

void AdminConnection::on_codec_done() {
  const Http1Counters& counts = admin_.http1_counters;
  admin_.counters.malformed.set(counts.malformed + counts.too_large + counts.unsupported);
  linger(/*cut=*/false);
}

void AdminConnection::on_gone() {
  end_exchange();
  admin_.owner.remove(*this);
  services_.worker().defer([](void* self) { delete static_cast<AdminConnection*>(self); }, this);
}

size_t AdminConnection::send_mark() const { return kSendMark; }

}  // namespace sluice

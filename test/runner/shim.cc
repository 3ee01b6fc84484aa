// The shim between BoringSSL's test runner (ssl/test/runner) and our TLS endpoint: it connects to the runner, does the
// handshake that the flags require with a TlsHandshake, and then returns the data that it reads through the record
// layer, inverted.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/read_record_layer.h"
#include "alts_like/tls13_record_layer.h"
#include "alts_like/tls_handshake.h"
#include "runner/shim_context.h"
#include "runner/shim_flags.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice::test {

namespace {

/// The connection to the runner.
class Wire {
 public:
  explicit Wire(const ShimFlags& flags) : byte_by_byte_(flags.async) {
    fd_ = socket(flags.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<uint16_t>(flags.port));
    six.sin6_addr = in6addr_loopback;
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    four.sin_port = six.sin6_port;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SLUICE_CHECK((flags.ipv6 ? connect(fd_, reinterpret_cast<sockaddr*>(&six), sizeof six)
                             : connect(fd_, reinterpret_cast<sockaddr*>(&four), sizeof four)) == 0);
    std::array<std::byte, 8> id;
    for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(flags.shim_id >> 8 * i);
    send(id);
  }
  // Unread data of the runner must not cause a reset, which would drop our last bytes.
  ~Wire() {
    shutdown(fd_, SHUT_WR);
    std::array<char, 1024> rest;
    while (recv(fd_, rest.data(), rest.size(), 0) > 0) {
    }
    close(fd_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Waits for the next bytes; returns none at the end.
  Buffer receive(ChunkPool& pool) {
    if (arrived_.empty()) {
      Lease lease(ChunkRef::take(pool.get_metadata(kReceiveBytes)), 0, kReceiveBytes);
      const ssize_t bytes = recv(fd_, lease.data(), lease.size(), 0);
      if (bytes <= 0) return {};
      lease.truncate(static_cast<size_t>(bytes));
      arrived_.append(std::move(lease));
    }
    return byte_by_byte_ ? arrived_.split_front(1) : std::exchange(arrived_, Buffer());
  }
  void send(const Buffer& buffer) {
    for (std::span<const std::byte> window : buffer.windows()) send(window);
  }

 private:
  // Less than a full record, so that one lies across chunks.
  static constexpr size_t kReceiveBytes = 4096;

  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // The runner has closed; it has its result already.
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
  }

  int fd_ = -1;
  const bool byte_by_byte_;
  Buffer arrived_;
};

/// One connection.
class Exchange {
 public:
  Exchange(const ShimFlags& flags, ShimMemory& memory, ChunkPool& pool)
      : flags_(flags), memory_(memory), pool_(pool), context_(flags, memory), wire_(flags) {}

  bool run(bool is_resume) {
    if (!shake_hands(is_resume)) return false;
    if (!first_words_.empty()) write(first_words_);
    if (flags_.write_different_record_sizes) {
      write_sizes();
    } else {
      begin_writing();
      if (!flags_.shim_shuts_down && !echo()) return false;
    }
    return check_tickets() && shut_down();
  }

 private:
  bool shake_hands(bool is_resume) {
    const auto side = flags_.server ? TlsHandshake::Side::kServer : TlsHandshake::Side::kClient;
    handshake_ = std::make_unique<TlsHandshake>(context_.get(), side);
    TlsHandshake& handshake = *handshake_;
    context_.prepare(handshake.ssl());
    Buffer received;
    for (;;) {
      Buffer out;
      const TlsHandshake::Status status = handshake.advance(pool_, std::move(received), out);
      wire_.send(out);
      if (status == TlsHandshake::Status::kFailed) {
        // Each reason between colons, in the runner's format.
        std::string reasons = handshake.error();
        for (size_t at = 0; (at = reasons.find(", ", at)) != std::string::npos;) reasons.replace(at, 2, ": :");
        std::fprintf(stderr, "handshake: :%s:\n", reasons.c_str());
        return false;
      }
      if (status == TlsHandshake::Status::kDone) break;
      received = wire_.receive(pool_);
      if (received.empty()) {
        std::fprintf(stderr, "handshake: the connection ended\n");
        return false;
      }
    }
    if (!context_.as_expected(handshake.ssl(), is_resume)) return false;
    is_13_ = handshake.version() == TLS1_3_VERSION;
    if (!take_exports(handshake.ssl())) return false;
    if (!flags_.server) keep(handshake.session());
    layer_ = handshake.finish();
    Buffer first;  // Session tickets: the runner waits for them.
    layer_->flush(pool_, first);
    wire_.send(first);
    return true;
  }

  // The exported secrets that the runner compares; later there is no SSL object.
  bool take_exports(SSL* ssl) {
    bool done = true;
    const auto add = [&](const uint8_t* data, size_t size) {
      first_words_.append(reinterpret_cast<const char*>(data), size);
    };
    if (flags_.export_keying_material > 0) {
      std::vector<uint8_t> material(static_cast<size_t>(flags_.export_keying_material));
      done = SSL_export_keying_material(ssl, material.data(), material.size(), flags_.export_label.data(),
                                        flags_.export_label.size(),
                                        reinterpret_cast<const uint8_t*>(flags_.export_context.data()),
                                        flags_.export_context.size(), flags_.use_export_context) == 1;
      add(material.data(), material.size());
    }
    if (flags_.export_traffic_secrets) {
      bssl::Span<const uint8_t> read, write;
      done = done && bssl::SSL_get_traffic_secrets(ssl, &read, &write);
      const std::array<uint8_t, 2> size = {static_cast<uint8_t>(read.size()), static_cast<uint8_t>(read.size() >> 8)};
      add(size.data(), size.size());
      add(read.data(), read.size());
      add(write.data(), write.size());
    }
    if (flags_.tls_unique) {
      std::array<uint8_t, 16> unique;
      size_t size = 0;
      done = done && SSL_get_tls_unique(ssl, unique.data(), &size, unique.size()) == 1;
      add(unique.data(), size);
    }
    if (!done) std::fprintf(stderr, "cannot export\n");
    return done;
  }

  // ---- Through the record layer ----

  Buffer sealed(std::string_view text) {
    Buffer plain, wire;
    SLUICE_CHECK(plain.append_copy(pool_, text));
    layer_->seal(pool_, std::move(plain), wire);
    return wire;
  }
  void write(std::string_view text) { wire_.send(sealed(text)); }

  void write_sizes() {
    for (const size_t size : {0u, 1u, 255u, 256u, 257u, 16383u, 16384u, 16385u, 32767u, 32768u, 32769u}) {
      write(std::string(size, '\x42'));
    }
  }

  void begin_writing() {
    if (flags_.read_with_unfinished_write) {
      unsent_ = sealed(flags_.shim_initial_write);
      wire_.send(unsent_.split_front(1));
    } else if (flags_.shim_writes_first) {
      for (int i = 0; i < flags_.repeat_shim_initial_write; ++i) write(flags_.shim_initial_write);
    }
  }

  enum class Read : uint8_t { kData, kEnded, kCutOff, kFailed };

  // Waits for something to read.
  Read read(Buffer& plain) {
    if (ended_) return Read::kEnded;
    for (;;) {
      Buffer received;
      // First the data after the handshake.
      if (std::exchange(opened_, true)) {
        rest();
        received = wire_.receive(pool_);
        if (received.empty()) return Read::kCutOff;
      }
      const RecordLayer::Status status = layer_->open(pool_, std::move(received), plain);
      for (auto& session : handshake_->sessions_of(layer_->take_tickets())) keep(std::move(session));
      // Not after our end.
      if (layer_->has_output() && !end_sent_) {
        Buffer output;
        layer_->flush(pool_, output);
        unsent_.empty() ? wire_.send(output) : unsent_.append(std::move(output));
      }
      if (status == RecordLayer::Status::kFailed) {
        std::fprintf(stderr, "%s: :%s:\n", is_13_ ? "record" : "record of BoringSSL",
                     std::string(layer_->error()).c_str());
        return Read::kFailed;
      }
      ended_ = status == RecordLayer::Status::kEnded;
      if (!plain.empty()) return Read::kData;
      if (ended_) return Read::kEnded;
    }
  }

  // With -async the layer is parked before each byte, and continues from its state.
  void rest() {
    if (!flags_.async) return;
    layer_->park(pool_);
    SecretBytes state;
    if (layer_->write_state(state)) layer_ = read_record_layer(pool_, state);
    SLUICE_CHECK(layer_);
  }

  void update_keys() {
    auto* layer = dynamic_cast<Tls13RecordLayer*>(layer_.get());
    SLUICE_CHECK(layer);
    Buffer wire;
    layer->update_keys(pool_, false, wire);
    wire_.send(wire);
  }

  bool echo() {
    for (;;) {
      if (flags_.key_update_before_read) update_keys();
      Buffer plain;
      const Read result = read(plain);
      if (result == Read::kFailed) return false;
      if (result != Read::kData) return true;
      wire_.send(std::exchange(unsent_, Buffer()));
      if (flags_.key_update) update_keys();
      SLUICE_CHECK(plain.make_writable(pool_, 0, plain.size()));
      for (size_t i = 0; i < plain.window_count(); ++i) {
        for (std::byte& byte : plain.writable_window(i)) byte ^= std::byte{0xff};
      }
      Buffer wire;
      layer_->seal(pool_, std::move(plain), wire);
      wire_.send(wire);
    }
  }

  // A client's session, for resumption.
  void keep(bssl::UniquePtr<SSL_SESSION> session) {
    if (!session || !SSL_SESSION_is_resumable(session.get())) return;
    ++sessions_;
    memory_.offered = std::move(session);
  }

  // TLS 1.3: whether a client got the tickets that it should have.
  bool check_tickets() {
    if (flags_.server || !is_13_) return true;
    const bool expected = !flags_.expect_no_session && !flags_.shim_shuts_down;
    if ((sessions_ > 0) != expected) std::fprintf(stderr, "tickets: want %d, got %d\n", expected, sessions_);
    return (sessions_ > 0) == expected;
  }

  bool shut_down() {
    if (!flags_.check_close_notify) return true;
    Buffer wire;
    layer_->seal_end(pool_, wire);
    wire_.send(wire);
    end_sent_ = true;
    // The peer may still send (RFC 8446 section 6.1).
    while (flags_.shim_shuts_down && !ended_) {
      Buffer plain;
      const Read result = read(plain);
      if (result == Read::kFailed) return false;
      if (result == Read::kCutOff) break;
    }
    if (!ended_) std::fprintf(stderr, "record: :the connection was cut off:\n");
    return ended_;
  }

  const ShimFlags& flags_;
  ShimMemory& memory_;
  ChunkPool& pool_;
  ShimContext context_;
  Wire wire_;
  std::unique_ptr<TlsHandshake> handshake_;
  std::unique_ptr<RecordLayer> layer_;
  std::string first_words_;
  Buffer unsent_;
  int sessions_ = 0;
  bool is_13_ = false;
  bool opened_ = false;
  bool end_sent_ = false;
  bool ended_ = false;  // By the peer.
};

int run(const ShimCommand& command) {
  ChunkPool pool({});
  ChunkPool::Use use(&pool);
  ShimMemory memory;
  for (int i = 0; i <= command.initial.resume_count; ++i) {
    const ShimFlags& flags = i > 0 ? command.resume : command.initial;
    if (i > 0 && !flags.server && !memory.offered) {
      std::fprintf(stderr, "there is no session to offer\n");
      return 1;
    }
    Exchange exchange(flags, memory, pool);
    if (!exchange.run(i > 0)) {
      std::fprintf(stderr, "connection %d failed\n", i + 1);
      return 1;
    }
    memory.now_s += static_cast<uint64_t>(flags.resumption_delay);
  }
  return 0;
}

}  // namespace

}  // namespace sluice::test

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const sluice::test::ShimCommand command = sluice::test::parse_command(argc, argv);
  if (command.queries_handshaker) {
    std::puts("No");  // BoringSSL's handshakes that are split between processes are not supported.
    return 0;
  }
  const int result = sluice::test::run(command);
  // The runner treats everything after this line as a sanitizer's report.
  std::fputs("--- DONE ---\n", stderr);
  return result;
}

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "buffer/buffer.h"
#include "pool/chunk_pointer.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/codec.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/listener/connection_setup.h"
#include "proxy/listener/session.h"

namespace sluice {

class ClientAcceptor;
struct HttpListener;

/// A client's connection to an HTTP listener. Its requests are exchanges, each on its own.
///
/// accepted -> ConnectionSetup -> [which version: by ALPN, or by the first bytes] -> requests -> closing. It destroys
/// itself when it has closed.
class HttpSession final : public Session,
                          public HttpConnection,
                          public HttpCodec::Acceptor,
                          public ConnectionSetup::Owner {
 public:
  /// Takes the descriptor of an accepted connection, which its limits have admitted.
  static void start(ClientAcceptor& acceptor, HttpListener& listener, HttpWorker& worker, int fd);

  void shut_down() override;
  void drain() override;
  bool review_memory() override;

  HttpListener& listener() { return listener_; }
  const ClientIp& client_ip() const { return client_ip_; }
  const Agreement* agreed() const { return agreed_.get(); }
  bool http2() const { return version_ == Version::kHttp2; }
  bool shutting_down() const { return shutting_down_; }
  /// That are open; at least 1.
  uint32_t streams() const { return codec_ && codec_->streams() > 0 ? codec_->streams() : 1; }
  bool has_queued() const { return transport_.queued() > 0; }
  /// When the client last took something of a response, or made room for it. Answers to its PINGs are none.
  uint64_t last_progress_ms() const { return has_queued() ? last_sent_ms() : last_body_ms_; }
  /// Something of a response's body goes out.
  void note_progress();
  /// What waits for the client is not worth waiting for.
  void abandon() { abandoned_ = true; }
  /// As Worker::should_shed_load, for one of its exchanges: where one has just given way, the others may too.
  bool should_shed_load();

 private:
  enum class Version : uint8_t { kUnknown, kHttp1, kHttp2 };

  /// What is needed only until it is known which version is spoken.
  struct Beginning {
    ChunkPointer<ConnectionSetup> setup;  // Null once it is over.
    Buffer first;                         // What the client has sent since.
  };

  HttpSession(ClientAcceptor& acceptor, HttpListener& listener, HttpWorker& worker, int fd);
  ~HttpSession() override;

  // ConnectionSetup::Owner
  void on_client_ready(Buffer&& first) override;
  void on_client_refused(Refusal reason) override;
  void on_client_failed(SessionEnd end) override;
  void on_client_closed() override { on_gone(); }
  // HttpCodec::Acceptor
  StreamReceiver& on_stream(HttpStream& stream) override;
  bool admits(size_t held_bytes, size_t bytes) override;
  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_flushed(size_t bytes) override;
  void on_timer() override;
  void on_gone() override;
  bool may_read() override;
  size_t send_mark() const override;
  // Transport::Owner
  void on_secured(Transport&, const Agreement&) override {}
  void on_insecure(Transport&, std::string_view) override {}
  void on_data(Transport& transport, Buffer&& data) override;
  void on_sent(Transport& transport) override;
  void on_part(Transport& transport) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  size_t receive_credit(Transport& transport) override;

  void look_at_first_bytes();
  void begin(Version version, Buffer&& first);
  void make_http1();
  bool client_has_left() const;
  bool is_trickle();
  void park_codec();
  // What it may hold (HttpCodec::held_bytes) right now.
  size_t held_limit() const;
  // Whether it is to give back memory, which is short, down to its share.
  bool gives_back() const;
  void count_end(SessionEnd end);
  void note_own_answer(uint16_t status);
  void head_timed_out();

  ClientAcceptor& acceptor_;
  HttpListener& listener_;
  ChunkPointer<Beginning> beginning_;
  std::unique_ptr<Agreement> agreed_;  // Where routes ask for it.
  SourceLimit::Place source_place_;    // Where sources are limited.
  ClientIp client_ip_;                 // Has no alignment: what is small follows.
  Version version_ = Version::kUnknown;
  bool draining_ = false;
  bool quiet_ = false;
  bool end_counted_ = false;
  bool mid_head_ : 1 = false;
  bool busy_ : 1 = false;            // There were streams.
  bool body_under_way_ : 1 = false;  // Something of a body is with the transport.
  bool shutting_down_ : 1 = false;
  bool abandoned_ : 1 = false;
  uint32_t requests_ = 0;  // Of a codec of HTTP/1.1 that was given back.
  uint32_t shed_load_ms_ = 0;
  uint32_t paused_ms_ = 0;          // Since when it holds more than its share of memory; 0: it does not.
  uint32_t progress_at_bytes_ = 0;  // Of bodies in HTTP/2, that had been sent at last_body_ms_.
  uint64_t started_ms_;
  uint64_t waits_since_ms_;  // For a request, a head's end, or the client to take what is sent.
  uint64_t last_body_ms_;    // Something of a response's body went out, or the last of it was taken.
};

}  // namespace sluice

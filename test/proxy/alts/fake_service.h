// A HandshakerService in the test's own process and thread: gRPC over HTTP/2 by nghttp2's server, on non-blocking
// sockets. It responds like FakeHandshake, unless a test overrides that.
#pragma once

#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/config/model/address.h"
#include "test/alts_like/handshaker_fake.h"
#include "test/net/loop.h"

namespace sluice::test {

class FakeService {
 public:
  struct Connection;
  struct Call {
    Connection& connection;
    int32_t id;
    FakeHandshake handshake;
    std::map<std::string, std::string> headers{};
    std::string in{}, out{};
    int requests = 0;
    bool responded = false;  ///< The head was sent.
    bool ends = false;       ///< Ends with trailers after `out`.
    bool ended_by_client = false;
    std::string status = "0", message{};
  };
  struct Connection {
    explicit Connection(FakeService& owner, int fd) : service(owner), peer(fd) {}
    ~Connection() { nghttp2_session_del(session); }
    FakeService& service;
    Peer peer;
    nghttp2_session* session = nullptr;
    std::string to_send;
    std::map<int32_t, std::unique_ptr<Call>> calls;
  };

  explicit FakeService(FakeDialect dialect = FakeDialect::kGo) : dialect_(dialect), listener_(tcp_listen(1024)) {
    address = config::Address::parse("127.0.0.1:" + std::to_string(port_of(listener_))).value();
    make_nonblocking();
  }
  explicit FakeService(const std::string& path) : dialect_(FakeDialect::kGo) {
    address = config::Address::parse("unix:" + path).value();
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SLUICE_CHECK(bind(listener_, address.data(), address.length()) == 0 && listen(listener_, 8) == 0);
    make_nonblocking();
  }
  ~FakeService() { ::close(listener_); }

  /// Processes all pending events.
  void turn() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) break;
      ++accepted;
      connections.push_back(std::make_unique<Connection>(*this, fd));
      if (speaks_http) begin(*connections.back());
      connections.back()->to_send += greeting;
    }
    for (const auto& c : connections) serve(*c);
    std::erase_if(connections, [](const auto& c) { return !c->peer.open(); });
  }

  // ---- Overrides for tests. They may be changed at any time.

  config::Address address;
  bool speaks_http = true;
  std::string greeting;                 ///< Sent first.
  std::optional<uint32_t> max_streams;  ///< Announced in SETTINGS.
  bool consumes_parts = true;
  /// Called for each request. Returns true if it has handled the request.
  std::function<bool(Call&, const std::string&)> on_request;
  /// Called when a call's headers have arrived. Returns true if it has handled the call.
  std::function<bool(Call&)> on_call;
  size_t data_frame_bytes = 16384;

  // ---- Observations

  int accepted = 0;
  int calls = 0;
  size_t most_calls = 0;  ///< At a time, on one connection.
  int resets = 0;         ///< Calls that the client canceled.
  int ended = 0;          ///< Calls that ended on both sides.
  std::vector<std::map<std::string, std::string>> headers;
  std::vector<std::unique_ptr<Connection>> connections;

  size_t open_calls() const {
    size_t count = 0;
    for (const auto& c : connections) count += c->calls.size();
    return count;
  }

  // ---- Actions on a call

  static std::string framed(std::string_view message) {
    std::string bytes(1, '\0');
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(message.size() >> shift));
    return bytes + std::string(message);
  }
  static void respond(Call& call, std::string_view bytes) {
    call.out += bytes;
    if (!std::exchange(call.responded, true)) {
      nghttp2_data_provider2 body{};
      body.source.ptr = &call;
      body.read_callback = [](nghttp2_session* session, int32_t id, uint8_t* to, size_t room, uint32_t* flags,
                              nghttp2_data_source* source, void*) -> nghttp2_ssize {
        Call& c = *static_cast<Call*>(source->ptr);
        const size_t bytes_now = std::min({room, c.out.size(), c.connection.service.data_frame_bytes});
        if (bytes_now == 0 && !c.ends) return NGHTTP2_ERR_DEFERRED;
        std::memcpy(to, c.out.data(), bytes_now);
        c.out.erase(0, bytes_now);
        if (c.out.empty() && c.ends) {
          *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
          const nghttp2_nv trailers[] = {field("grpc-status", c.status), field("grpc-message", c.message)};
          nghttp2_submit_trailer(session, id, trailers, c.message.empty() ? 1 : 2);
        }
        return static_cast<nghttp2_ssize>(bytes_now);
      };
      const nghttp2_nv head[] = {field(":status", "200"), field("content-type", "application/grpc+proto")};
      nghttp2_submit_response2(call.connection.session, call.id, head, 2, &body);
    }
    nghttp2_session_resume_data(call.connection.session, call.id);
  }
  static void send_response(Call& call, const FakeResponse& response) { respond(call, framed(response.bytes())); }
  static void end(Call& call, const std::string& status = "0", const std::string& message = "") {
    call.ends = true;
    call.status = status;
    call.message = message;
    respond(call, "");
  }
  /// Sends headers and nothing else.
  static void head_only(Call& call, const std::vector<std::pair<std::string, std::string>>& fields) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) list.push_back(field(name, value));
    nghttp2_submit_response2(call.connection.session, call.id, list.data(), list.size(), nullptr);
  }
  static void reset(Call& call, uint32_t code) {
    nghttp2_submit_rst_stream(call.connection.session, NGHTTP2_FLAG_NONE, call.id, code);
  }
  void respond_as_usual(Call& call, const std::string& request) {
    const FakeResponse response = call.handshake.respond(request);
    send_response(call, response);
    // As the fake of gRPC core does.
    if (response.result && dialect_ == FakeDialect::kCore) end(call);
  }

 private:
  static nghttp2_nv field(std::string_view name, std::string_view value) {
    const auto bytes = [](std::string_view t) {
      return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(t.data()));
    };
    return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
  }
  void make_nonblocking() const { SLUICE_CHECK(fcntl(listener_, F_SETFL, O_NONBLOCK) == 0); }
  static Connection& of(void* connection) { return *static_cast<Connection*>(connection); }
  static Call* find(Connection& connection, int32_t id) {
    const auto at = connection.calls.find(id);
    return at == connection.calls.end() ? nullptr : at->second.get();
  }

  void begin(Connection& connection) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          Connection& c = of(self);
          if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
          ++c.service.calls;
          c.calls[frame->hd.stream_id] = std::make_unique<Call>(
              Call{c, frame->hd.stream_id, FakeHandshake(c.service.dialect_, c.service.consumes_parts)});
          c.service.most_calls = std::max(c.service.most_calls, c.calls.size());
          return 0;
        });
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* self) {
          if (Call* const call = find(of(self), frame->hd.stream_id)) {
            call->headers[std::string(reinterpret_cast<const char*>(name), name_size)] =
                std::string(reinterpret_cast<const char*>(value), value_size);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* bytes, size_t size, void* self) {
          if (Call* const call = find(of(self), id)) {
            call->in.append(reinterpret_cast<const char*>(bytes), size);
            of(self).service.take_requests(*call);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          Connection& c = of(self);
          Call* const call = find(c, frame->hd.stream_id);
          if (!call) return 0;
          if (frame->hd.type == NGHTTP2_HEADERS) {
            c.service.headers.push_back(call->headers);
            if (c.service.on_call) c.service.on_call(*call);
          }
          if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
              (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            call->ended_by_client = true;
            if (!call->ends && c.service.ends_with_client) end(*call);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, int32_t id, uint32_t code, void* self) {
          ++(code == NGHTTP2_NO_ERROR ? of(self).service.ended : of(self).service.resets);
          of(self).calls.erase(id);
          return 0;
        });
    SLUICE_CHECK(nghttp2_session_server_new(&connection.session, callbacks, &connection) == 0);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry limit{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams.value_or(0)};
    nghttp2_submit_settings(connection.session, NGHTTP2_FLAG_NONE, &limit, max_streams ? 1 : 0);
  }

  void take_requests(Call& call) {
    while (call.in.size() >= 5) {
      size_t size = 0;
      for (size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<uint8_t>(call.in[i]);
      if (call.in.size() < 5 + size) return;
      const std::string request = call.in.substr(5, size);
      call.in.erase(0, 5 + size);
      ++call.requests;
      if (!on_request || !on_request(call, request)) respond_as_usual(call, request);
    }
  }

  void serve(Connection& c) {
    if (c.peer.read() > 0 && c.session) {
      const nghttp2_ssize taken = nghttp2_session_mem_recv2(
          c.session, reinterpret_cast<const uint8_t*>(c.peer.received.data()), c.peer.received.size());
      EXPECT_EQ(taken, static_cast<nghttp2_ssize>(c.peer.received.size())) << nghttp2_strerror(static_cast<int>(taken));
    }
    c.peer.received.clear();
    for (const uint8_t* bytes = nullptr; c.session;) {
      const nghttp2_ssize size = nghttp2_session_mem_send2(c.session, &bytes);
      if (size <= 0) break;
      c.to_send.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    }
    if (c.peer.open()) c.to_send.erase(0, c.peer.send_some(c.to_send));
    if (c.peer.ended || c.peer.error != 0) c.peer.close();
  }

 public:
  bool ends_with_client = true;  ///< Ends a call when the client has half-closed it.

 private:
  FakeDialect dialect_;
  int listener_;
};

}  // namespace sluice::test

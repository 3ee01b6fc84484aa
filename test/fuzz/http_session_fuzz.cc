// The proxy between hostile peers on both sides: clients of HTTP/1.1 and HTTP/2, endpoints of either, with real sockets
// and a real worker. The input says what each of them sends, in what pieces, which of them stops reading, half-closes,
// closes or resets, and how far time moves. In all cases the proxy sends valid frames, or exactly the requests that it
// forwarded; memory stays bounded; and once the peers have left, each session and each request has ended once, within
// bounded time, and no chunk, connection or socket is left.
//
// Input: two bytes of flags, then steps as described by the comments of step(). If the second byte has bit 64, two
// bytes come first that choose what the proxy does besides forwarding (HttpFeatures).

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/worker.h"
#include "proxy/http/h1/websocket.h"
#include "test/fuzz/http_session_edge.h"
#include "test/fuzz/http_session_messages.h"
#include "test/fuzz/http_session_peer.h"
#include "test/support/fuzz_input.h"

namespace {

// The monotonic clock of the fuzzer's thread only changes when an input moves it. It is far ahead of the kernel's, so
// that no kernel timer ends a wait.
thread_local constinit bool time_is_ours = false;
constexpr uint64_t kFirstMs = uint64_t{1} << 40;
uint64_t our_time_ms = kFirstMs;
constexpr uint64_t kInputMs = uint64_t{1} << 28;  // Between inputs: more than one can take.

}  // namespace

// Replaces the C library's function for the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_MONOTONIC || !time_is_ours) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(our_time_ms / 1000);
  time->tv_nsec = static_cast<long>(our_time_ms % 1000 * 1'000'000);
  return 0;
}

namespace sluice::fuzz {
namespace {

using Type = Http2FrameType;

constexpr size_t kMaxSteps = 200;
constexpr size_t kMaxClients = 4;
constexpr int kMaxReloads = 3;
// The bytes that peers may send in total: their sockets can hold that much, which no mark bounds.
constexpr size_t kMaxBytesSent = size_t{4} << 20;
// The bytes that the sessions of an input may hold at once: some streams at their marks, and what sockets delivered for
// them.
constexpr size_t kMaxHeldBytes = size_t{6} << 20;
// Every timeout is less than this.
constexpr uint64_t kMaxEndMs = 240'000;

size_t open_sockets() {
  DIR* const directory = opendir("/proc/self/fd");
  SLUICE_CHECK(directory != nullptr);
  size_t count = 0;
  while (const dirent* const entry = readdir(directory)) {
    std::array<char, 8> target{};
    const ssize_t length = readlinkat(dirfd(directory), entry->d_name, target.data(), target.size());
    count += length > 0 && std::string_view(target.data(), 7) == "socket:";
  }
  closedir(directory);
  return count;
}

class Fuzz final : test::FuzzInput {
 public:
  Fuzz(Machine& machine, ChunkPool& ears, const uint8_t* data, size_t size)
      : FuzzInput(data, size), machine_(machine), ears_(ears) {}

  void run() {
    const uint8_t flags = byte(), more = byte();
    logged_ = (flags & 16) != 0;
    uint32_t features = more & 64 ? byte() : 0u;
    if (more & 64) features |= byte() * 256u;
    Edge edge(machine_, {.upstream_http2 = (flags & 2) != 0,
                         .small = (flags & 4) != 0,
                         .relaxed = (flags & 8) != 0,
                         .log = logged_,
                         .features = features});
    edge_ = &edge;
    responds_ = (flags & 32) != 0;  // Endpoints respond to each request by themselves.
    settles_ = (flags & 64) == 0;   // Each step takes effect before the next.
    raw_ = (flags & 128) != 0;      // Only what steps say is sent: no SETTINGS, no preface.
    slow_sockets_ = (more & 1) != 0;
    connect((flags & 1) != 0);
    for (size_t steps = 0; !used_up() && steps < kMaxSteps; ++steps) {
      step();
      if (settles_ && !quiet_) settle();
    }
    settle();
    end(more);
    edge_ = nullptr;
  }

 private:
  Worker& worker() { return machine_.worker(); }

  // ---- The loop ----

  // A wait of no time takes the kernel as long as everything else. So there is always a completion, of a descriptor
  // that cannot be closed.
  void turn_worker() {
    worker().ring().close(-1);
    worker().turn(0);
  }
  void turn() {
    const uint64_t completions = worker().counters().completions;
    turn_worker();
    quiet_ = worker().counters().completions == completions + 1;
    // New connections arrive at most one turn later.
    const uint64_t opened = edge_->connections_opened();
    if (std::exchange(opened_, opened) != opened) expect_turns_ = 2;
    if (expect_turns_ > 0) {
      --expect_turns_;
      accept_endpoints(machine_.http1(), false);
      accept_endpoints(machine_.http2(), true);
      accept_endpoints(machine_.second_http1(), false);
      accept_endpoints(machine_.second_http2(), true);
    }
    for (auto& peer : clients_) quiet_ = !peer->turn() && quiet_;
    for (auto& peer : endpoints_) {
      quiet_ = !peer->turn() && quiet_;
      if (responds_) respond_to_pending(*peer);
    }
    SLUICE_CHECK(held_bytes() <= kMaxHeldBytes);
    SLUICE_CHECK(edge_->requests_ended() <= edge_->requests());
  }
  // Until two turns in a row do nothing: what one submits may complete in the next.
  void settle() {
    int quiet_turns = 0;
    for (int turns = 0; quiet_turns < 2 && turns < 30; ++turns) {
      turn();
      quiet_turns = quiet_ && turns > 0 ? quiet_turns + 1 : 0;
    }
    quiet_ = true;
  }
  void accept_endpoints(int listener, bool http2) {
    for (int fd; (fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
      quiet_ = false;
      make_slow(fd);
      endpoints_.push_back(std::make_unique<Peer>(fd, http2, /*server=*/true, ears_));
      if (http2 && !raw_) greet(*endpoints_.back());
      endpoint_ = endpoints_.size() - 1;
    }
  }
  // So that little data fills it.
  void make_slow(int fd) const {
    const int bytes = 4096;
    if (slow_sockets_) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  // Beyond what is posted to the kernel, and what the fuzzer itself holds.
  size_t held_bytes() {
    const size_t posted = worker().small_group().posted_bytes() + worker().large_group().posted_bytes();
    return worker().pool().out_bytes() - posted - hogged_.size() * kMaxChunkBytes;
  }

  // ---- The peers ----

  void connect(bool http2) {
    if (clients_.size() >= kMaxClients) return;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    SLUICE_CHECK(fd >= 0);
    make_slow(fd);
    const config::Address address = address_of(machine_.edge());
    SLUICE_CHECK(::connect(fd, address.data(), address.length()) == 0 || errno == EINPROGRESS);
    clients_.push_back(std::make_unique<Peer>(fd, http2, /*server=*/false, ears_));
    client_ = clients_.size() - 1;
    if (http2 && !raw_) greet(*clients_.back());
    for (int turns = 0; edge_->accepted() < clients_.size() && turns < 100; ++turns) turn();
    SLUICE_CHECK(edge_->accepted() == clients_.size());
  }
  void greet(Peer& peer) {
    peer.greeted = true;
    const bool client = !peer.http2_receiver->server();
    const std::string entries = client ? std::string() : std::string("\0\x08", 2) + u32(1);  // Accepts websockets.
    send(peer, (client ? std::string(kHttp2Preface) : std::string()) + frame(Type::kSettings, 0, 0, entries));
  }
  Peer* peer_of(bool endpoint) {
    if (!endpoint) return clients_[client_].get();
    return endpoints_.empty() ? nullptr : endpoints_[endpoint_].get();
  }
  void send(Peer& peer, std::string_view bytes) {
    sent_bytes_ += bytes.size();
    quiet_ = false;
    if (sent_bytes_ > kMaxBytesSent) return;
    if (cut_ == 0) return peer.send(bytes);
    // Only the first pieces: each takes a turn.
    for (int pieces = 0; pieces < 20 && bytes.size() > cut_; ++pieces) {
      peer.send(bytes.substr(0, cut_));
      bytes.remove_prefix(cut_);
      turn_worker();
    }
    peer.send(bytes);
  }
  void respond_to_pending(Peer& peer) {
    if (peer.http2_receiver) {
      for (const uint32_t stream : std::exchange(peer.http2_receiver->pending, {})) {
        send(peer, frame(Type::kHeaders, 4, stream, literal(":status", "200")) + frame(Type::kData, 1, stream, "ok"));
      }
    }
    if (!peer.http1_receiver) return;
    for (; peer.http1_receiver->pending > 0; --peer.http1_receiver->pending) {
      send(peer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
  }

  // ---- Steps ----

  uint32_t number() { return uint32_t{byte()} << 24 | uint32_t{byte()} << 16 | uint32_t{byte()} << 8 | byte(); }
  // A stream that is, was, or will be open; often the last one.
  static uint32_t stream_of(const Peer& peer, uint8_t which) {
    if (which < 64) return peer.last_stream();
    return which < 240 ? uint32_t{which} % 16 * 2 + 1 : which % 8;
  }

  // A byte for the action and the peer (128: an endpoint), then as described for each.
  void step() {
    const uint8_t what = byte();
    const bool endpoint = (what & 128) != 0;
    switch (what % 128 % 32) {
      case 0:
        turn();
        return;
      case 1:
        settle();
        return;
      case 2: {
        static constexpr std::array<uint32_t, 12> kTimes{1,    10,     100,    500,    1000,   2000,
                                                         5000, 10'000, 20'000, 31'000, 60'000, 120'000};
        our_time_ms += kTimes[byte() % kTimes.size()];
        if (!endpoint) settle();  // Otherwise timers coincide with the effects of the next step.
        return;
      }
      case 3:
        return connect(byte() % 2 != 0);
      case 4: {
        const uint8_t which = byte();
        if (!endpoint) client_ = which % clients_.size();
        if (endpoint && !endpoints_.empty()) endpoint_ = which % endpoints_.size();
        return;
      }
      case 5:
        cut_ = byte() % 40;
        return;
      case 6:
        quiet_ = false;
        if (const uint8_t which = byte(); which % 8 == 0) {
          edge_->drain();
        } else if (which % 8 == 1 && reloads_ < kMaxReloads) {
          ++reloads_;
          edge_->reload();
        }
        return;
      case 7:
        quiet_ = false;
        if (const uint8_t which = byte(); which % 16 == 0) edge_->shut_down();
        return;
      case 8:
        return hog(byte());
      default:
        break;
    }
    Peer* const peer = peer_of(endpoint);
    if (peer) speak(*peer, endpoint, what % 128 % 32);
  }

  // Takes so much of the worker's memory that little is left, or returns all of it.
  void hog(uint8_t how) {
    ChunkPool& pool = worker().pool();
    const ChunkPool::Use use(&pool);
    quiet_ = false;
    if (how % 2 == 0) return hogged_.clear();
    const size_t left = how * size_t{2048};
    while (pool.headroom_bytes() > left + kMaxChunkBytes) {
      Chunk* const chunk = pool.get(kMaxChunkBytes);
      if (!chunk) return;
      hogged_.push_back(ChunkRef::take(chunk));
    }
  }

  void speak(Peer& peer, bool endpoint, int what) {
    switch (what) {
      case 9: {  // Bytes.
        const uint8_t size = byte();
        return send(peer, take(size));
      }
      case 10: {  // Any frame.
        const auto type = static_cast<Type>(byte() % 18);
        const uint8_t flags = byte();
        const uint32_t stream = stream_of(peer, byte());
        const uint8_t size = byte();
        return send(peer, frame(type, flags, stream, take(size)));
      }
      case 11:
      case 12:
      case 13:
        return endpoint ? respond(peer) : request(peer);
      case 14:
      case 15:
        return body(peer, what == 15);
      case 16:
        return trailers(peer);
      case 17:
        if (!peer.http2) return send(peer, "0\r\n\r\n");
        return rst(peer);
      case 18: {
        const uint32_t stream = byte() % 2 == 0 ? 0 : stream_of(peer, byte());
        const uint8_t size = byte();
        const uint32_t more = size == 255 ? number() : size < 128 ? size : (size - 127u) * 1000;
        return send_http2(peer, frame(Type::kWindowUpdate, 0, stream, u32(more)));
      }
      case 19:
        return settings(peer);
      case 20:
        return send_http2(peer, frame(Type::kSettings, 1, 0, ""));
      case 21: {
        const uint8_t how = byte();
        return send_http2(peer, frame(Type::kPing, how & 1, 0, how & 2 ? "draining" : "12345678"));
      }
      case 22: {
        const uint8_t last = byte(), error = byte();
        return send_http2(peer,
                          frame(Type::kGoaway, 0, 0,
                                u32(last >= 200 ? kHttp2MaxStream : last % 16) + u32(error < 200 ? 0 : error % 16)));
      }
      case 23:
        quiet_ = false;
        return peer.half_close();
      case 24:
        quiet_ = false;
        return peer.close();
      case 25:
        quiet_ = false;
        return peer.reset();
      case 26:
        quiet_ = false;
        peer.reads = byte() % 2 != 0;
        return;
      case 27:
        if (peer.http2 && !peer.greeted) greet(peer);
        return;
      case 28:
        return send_http2(peer, frame(Type::kPriorityUpdate, 0, 0, u32(stream_of(peer, byte())) + "u=1, i"));
      default:  // Many at once.
        for (int n = byte() % 8; n > 0; --n) endpoint ? respond(peer) : request(peer);
        return;
    }
  }
  void send_http2(Peer& peer, std::string_view bytes) {
    if (peer.http2) send(peer, bytes);
  }
  void rst(Peer& peer) {
    const uint32_t stream = stream_of(peer, byte());
    send(peer, frame(Type::kRstStream, 0, stream, u32(byte() % 14)));
  }
  void settings(Peer& peer) {
    std::string entries;
    for (int n = byte() % 4; n > 0; --n) {
      const auto name = static_cast<char>(byte() % 10);
      const uint8_t size = byte();
      const uint32_t value = size == 255 ? number() : size * (name == 5 ? 20'000u : size >= 128 ? 1000u : 1u);
      entries += std::string{0, name} + u32(value);
    }
    send_http2(peer, frame(Type::kSettings, 0, 0, entries));
  }

  std::string_view value_of(const Text& field) const {
    return field.value == kToken ? std::string_view(machine_.credentials().token) : field.value;
  }
  // Which request, and with what: 64 its end at once, 128 many additional fields.
  void request(Peer& peer) {
    const uint8_t which = byte();
    const Request& request = kRequests[which % 32 % kRequests.size()];
    if (peer.http2) {
      const bool websocket = is_websocket(request);
      std::string block =
          literal(":method", websocket ? "CONNECT" : request.method) + literal(":authority", "a.test", 0x40);
      if (!request.path.empty()) block += literal(":scheme", "http") + literal(":path", request.path);
      if (websocket) block += literal(":protocol", "websocket");
      for (const Text& field : request.fields) {
        if (!is_of_http1(field.name)) block += literal(field.name, value_of(field));
      }
      if (which & 128) block += many_fields();
      const uint32_t stream = peer.next_stream;
      peer.next_stream += 2;
      const bool end = (request.body == Request::kNone && request.method != "CONNECT" && !websocket) || (which & 64);
      return send_head(peer, stream, block, end, (which & 32) != 0);
    }
    std::string head(request.method);
    head.append(" ").append(request.path.empty() ? "a.test:80" : request.path);
    head.append(which & 32 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n").append("host: a.test\r\n");
    for (const Text& field : request.fields)
      head.append(field.name).append(": ").append(value_of(field)).append("\r\n");
    if (is_websocket(request)) {
      head.append("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: ").append(kKey).append("\r\n");
    }
    if (request.body == Request::kChunked) head.append("transfer-encoding: chunked\r\n");
    if (which & 128) head.append(many_lines());
    head.append("\r\n");
    if ((which & 64) && request.body == Request::kChunked) head.append("4\r\nbody\r\n0\r\n\r\n");
    send(peer, head);
  }
  // The same for responses; 32: as HTTP/1.0, or in two frames.
  void respond(Peer& peer) {
    const uint8_t which = byte();
    const Response& response = kResponses[which % kResponses.size()];
    if (peer.http2) {
      const uint32_t stream = stream_of(peer, byte());
      std::string block = literal(":status", response.status);
      for (const Text& field : response.fields) {
        if (!is_of_http1(field.name)) block += literal(field.name, field.value, 0x40);
      }
      if (which & 128) block += many_fields();
      const bool end = (which & 64) != 0 && response.body.empty();
      send_head(peer, stream, block, end, (which & 32) != 0);
      if (!response.body.empty()) send(peer, frame(Type::kData, which & 64 ? 1 : 0, stream, response.body));
      return;
    }
    std::string head(which & 32 ? "HTTP/1.0 " : "HTTP/1.1 ");
    head.append(response.status).append(" X\r\n");
    for (const Text& field : response.fields) head.append(field.name).append(": ").append(field.value).append("\r\n");
    if (response.status == "101" && http1::is_websocket_key(peer.http1_receiver->websocket_key)) {
      const auto accept = http1::websocket_accept(peer.http1_receiver->websocket_key);
      head.append("sec-websocket-accept: ").append(accept.data(), accept.size()).append("\r\n");
    }
    if (which & 128) head.append(many_lines());
    head.append("\r\n").append(response.body);
    const bool chunked = !response.fields.empty() && response.fields.back().value == "chunked";
    if ((which & 64) && chunked) head.append("0\r\n\r\n");
    send(peer, head);
  }
  void send_head(Peer& peer, uint32_t stream, std::string_view block, bool end, bool in_two) {
    const uint8_t flag = end ? 1 : 0;
    if (!in_two) return send(peer, frame(Type::kHeaders, flag | 4, stream, block));
    const size_t half = block.size() / 2;
    send(peer, frame(Type::kHeaders, flag, stream, block.substr(0, half)) +
                   frame(Type::kContinuation, 4, stream, block.substr(half)));
  }
  std::string many_fields() {
    std::string block;
    for (int n = byte() % 140; n > 0; --n) block += literal(n % 2 ? "cookie" : "x-many", "abc", n % 3 ? 0 : 0x40);
    return block;
  }
  std::string many_lines() {
    std::string lines;
    for (int n = byte() % 140; n > 0; --n) lines += n % 2 ? "cookie: abc\r\n" : "x-many: abc\r\n";
    return lines;
  }
  // How much; in HTTP/2 then flags (1 the end, 8 padded), in HTTP/1.1 1 for chunks.
  void body(Peer& peer, bool large) {
    const uint8_t size = byte();
    const std::string bytes(large ? size * size_t{512} : size, 'b');
    const uint8_t how = byte();
    if (!peer.http2) return send(peer, how & 1 ? chunk(bytes) : bytes);
    const uint32_t stream = stream_of(peer, byte());
    if (how & 128)
      return send(peer, frame(Type::kData, how & 1, stream, bytes));  // Possibly a frame that is too large.
    std::string frames;
    for (size_t at = 0; at == 0 || at < bytes.size(); at += kHttp2FrameBytes) {
      const std::string_view piece = std::string_view(bytes).substr(at, kHttp2FrameBytes);
      const uint8_t end = at + piece.size() == bytes.size() ? how & 1 : 0;
      const bool padded = (how & 8) != 0 && piece.size() < kHttp2FrameBytes;
      frames +=
          frame(Type::kData, end | (padded ? 8 : 0), stream, (padded ? std::string(1, '\0') : "") + std::string(piece));
    }
    send(peer, frames);
  }
  void trailers(Peer& peer) {
    if (!peer.http2) return send(peer, "0\r\nx-trailer: 1\r\ngrpc-status: 0\r\n\r\n");
    send(peer,
         frame(Type::kHeaders, 5, stream_of(peer, byte()), literal("x-trailer", "1") + literal("grpc-status", "0")));
  }

  // ---- The end ----

  // 2: clients stay until the endpoints' end took effect; 4: they close, and do not reset; 8: so do endpoints; 16: but
  // the proxy ends first, its connections to endpoints (32) at once.
  void end(uint8_t how) {
    hogged_.clear();
    responds_ = false;
    if (how & 16) {
      edge_->stop_accepting();
      edge_->shut_down();
      settle();
      SLUICE_CHECK(edge_->sessions_gone());
      edge_->close_upstreams((how & 32) != 0);
      settle();
    }
    if ((how & 2) == 0) leave(clients_, (how & 4) != 0);
    settle();
    leave(endpoints_, (how & 8) != 0);
    settle();
    leave(clients_, (how & 4) != 0);
    edge_->stop_accepting();
    const uint64_t began_ms = our_time_ms;
    uint64_t step_ms = 250;
    for (settle(); !edge_->idle(); settle()) {
      SLUICE_CHECK(our_time_ms - began_ms < kMaxEndMs);
      our_time_ms += step_ms;
      step_ms = std::min<uint64_t>(step_ms * 2, 8000);
      leave(endpoints_, false);  // Endpoints that connected since.
    }
    SLUICE_CHECK(edge_->requests_ended() == edge_->requests());
    SLUICE_CHECK(edge_->sessions_ended() == edge_->accepted());
    SLUICE_CHECK(edge_->active() == 0);
    uint64_t received_requests = 0;
    for (const auto& peer : endpoints_) received_requests += peer->http1_receiver ? peer->http1_receiver->requests : 0;
    SLUICE_CHECK(received_requests <= edge_->requests_passed_on());
    if (logged_) count_lines();
    clients_.clear();
    endpoints_.clear();
    turn_worker();
    worker().pool().take_remote_frees();
    SLUICE_CHECK(worker().pool().leaked() ==
                 worker().small_group().filled_slots() + worker().large_group().filled_slots());
    SLUICE_CHECK(ears_.leaked() == 0);
    SLUICE_CHECK(machine_.body_file().pool.stats().out_bytes == 0);
  }
  static void leave(std::deque<std::unique_ptr<Peer>>& peers, bool close) {
    for (auto& peer : peers) close ? peer->close() : peer->reset();
  }
  void count_lines() {
    machine_.least_lines += edge_->requests_ended();
    machine_.most_lines += edge_->requests_ended() + edge_->statuses();
  }

  Machine& machine_;
  ChunkPool& ears_;
  Edge* edge_ = nullptr;
  std::deque<std::unique_ptr<Peer>> clients_, endpoints_;
  size_t client_ = 0, endpoint_ = 0;  // The peers of the next steps.
  std::vector<ChunkRef> hogged_;
  size_t cut_ = 0;
  int reloads_ = 0;
  size_t sent_bytes_ = 0;
  uint64_t opened_ = 0;   // Connections to endpoints,
  int expect_turns_ = 0;  // of which some may still have to be accepted for this many turns.
  bool quiet_ = true;     // Nothing has happened that may have an effect.
  bool responds_ = false, settles_ = true, raw_ = false, slow_sockets_ = false, logged_ = false;
};

void run_one(const uint8_t* data, size_t size) {
  time_is_ours = true;
  static Machine machine;
  // The fuzzer acts as one of the ends.
  static ChunkPool ears({.budget_bytes = size_t{64} << 20});
  const ChunkPool::Use use(&ears);
  // The worker's timer wheel is at the same position each time.
  our_time_ms = (our_time_ms / kInputMs + 1) * kInputMs;
  machine.worker().turn(0);  // Otherwise the first client's connection would be from before that.
  static uint64_t inputs = 0;
  Fuzz(machine, ears, data, size).run();
  static size_t sockets = 0;
  if (++inputs % 64 == 1) {
    const size_t now = open_sockets();
    SLUICE_CHECK(sockets == 0 || now == sockets);
    sockets = now;
  }
  time_is_ours = false;
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::fuzz::run_one(data, size);
  return 0;
}

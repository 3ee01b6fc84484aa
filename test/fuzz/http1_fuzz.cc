// Any bytes, cut anywhere, as the input of a server or a client of HTTP/1.1. The parsed messages must depend on the
// bytes only; and a parsed message that is written for the next hop and parsed there is the same message, and nothing
// else.
//
// Input: one byte for the number of cuts, two bytes for the position of each, one byte of flags (see below), then what
// the peer sends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/http/h1/http1_client.h"
#include "proxy/http/h1/http1_server.h"
#include "test/support/buffers.h"
#include "test/support/cuts.h"

namespace sluice {
namespace {

// Flags of the input.
constexpr uint8_t kResponse = 1;
constexpr uint8_t kHeadMethod = 2;
constexpr uint8_t kConnect = 4;
constexpr uint8_t kPauses = 8;       // The receiver reads only sometimes.
constexpr uint8_t kNoResponse = 16;  // No responses to requests, so that later ones wait.

using Status = HttpCodec::Status;

// The limits of the second hop: everything that the first one accepts, and what it adds.
Http1Options wide() {
  Http1Options options;
  options.limits = {.start_line_bytes = 64 * 1024, .head_bytes = 64 * 1024, .fields = 1000};
  options.allow_connect = true;
  return options;
}
const Http1Options kWide = wide();

// Records what is received of one message, as text; without Content-Length, which belongs to the framing, and the
// version of WebSocket, which is added where it is missing.
class Recorder : public StreamReceiver {
 public:
  virtual ~Recorder() = default;

  void on_head(HttpStream& stream, Head&& head, bool end) override {
    check();
    SLUICE_CHECK((head.status == 0) != head.method().empty());
    tunnel = !head.protocol().empty() || head.method() == "CONNECT";
    if (!head.protocol().empty()) {
      SLUICE_CHECK(head.protocol() == "websocket" && !end);
    }
    if (to && head.status == 0 && head.authority().empty()) {  // It came with HTTP/1.0, and cannot be forwarded so.
      SLUICE_CHECK(head.set(*ChunkPool::current(), Head::Part::kAuthority, "none"));
    }
    text += "\nhead " + std::to_string(head.status);
    for (int part = 0; part < 5; ++part) text += " " + std::string(head.part(static_cast<Head::Part>(part)));
    add(head.fields);
    if (to) to->send_head(head, end);
    finish(stream, end);
  }
  void on_body(HttpStream& stream, Buffer&& body, bool end) override {
    check();
    if (!body.empty() && !std::exchange(in_body_, true)) text += "\nbody ";
    text += test::text_of(body);
    if (to) to->send_body(std::move(body), end);
    finish(stream, end);
  }
  void on_trailers(HttpStream& stream, Fields&& trailers) override {
    check();
    in_body_ = false;
    SLUICE_CHECK(!trailers.empty());
    text += "\ntrailers ";
    add(trailers);
    if (to) to->send_trailers(trailers);
    finish(stream, true);
  }
  void on_reset(HttpStream&, ResetReason reason) override {
    check();
    over_ = true;
    text += "\nreset " + std::to_string(static_cast<int>(reason));
    if (to) to->reset(reason);
  }
  void on_drained(HttpStream&) override {}

  std::string text;
  HttpStream* to = nullptr;  // The stream of the next hop.
  bool complete = false;
  bool tunnel = false;

 protected:
  virtual void completed(HttpStream&) {}
  void restart() { over_ = complete = in_body_ = false; }

 private:
  void check() { SLUICE_CHECK(!over_); }
  void add(const Fields& fields) {
    for (const Fields::Field field : fields) {
      for (const char c : field.name) SLUICE_CHECK(c > ' ' && c < 0x7f && c != ':' && !(c >= 'A' && c <= 'Z'));
      SLUICE_CHECK(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
      if (field.name != "content-length" && field.name != "sec-websocket-version")
        text += "\n " + std::string(field.name) + ": " + std::string(field.value);
    }
  }
  void finish(HttpStream& stream, bool end) {
    if (!end) return;
    complete = over_ = true;
    in_body_ = false;
    text += "\nend";
    completed(stream);
  }

  bool over_ = false, in_body_ = false;
};

// Parses requests, and responds to them.
class Origin : public Recorder, public HttpCodec::Acceptor {
 public:
  explicit Origin(bool responds) : responds_(responds) {}
  StreamReceiver& on_stream(HttpStream& request_stream) override {
    restart();
    ++requests;
    stream = &request_stream;
    return *this;
  }

  HttpStream* stream = nullptr;
  int requests = 0;

 protected:
  void completed(HttpStream& request_stream) override {
    if (!responds_) return;
    Head head;
    head.status = 200;
    request_stream.send_head(head, true);
    stream = nullptr;
    request_stream.release();
  }

 private:
  const bool responds_;
};

// Passes each request to the next hop, and checks what arrives there.
class Proxy : public Origin {
 public:
  Proxy() : Origin(true) {}
  StreamReceiver& on_stream(HttpStream& stream_of_request) override {
    check_next_hop();
    text.clear();
    client_ = std::make_unique<Http1Client>(*ChunkPool::current(), kWide, counters_);
    to = client_->open_stream(responses_);
    return Origin::on_stream(stream_of_request);
  }
  // Everything was parsed.
  void check_next_hop() {
    if (!client_) return;
    SLUICE_CHECK(client_->status() == Status::kOpen || !complete);
    Origin next(true);
    Http1Server server(*ChunkPool::current(), kWide, counters_, next);
    Buffer wire;
    client_->flush(wire);
    server.receive(std::move(wire));
    if (complete || tunnel) {
      SLUICE_CHECK(server.status() == Status::kOpen);
      SLUICE_CHECK(next.text == text && next.requests == 1);
      SLUICE_CHECK(next.complete == complete && next.tunnel == tunnel);
    } else {
      SLUICE_CHECK(!next.complete && next.requests <= 1 && server.status() == Status::kOpen);
    }
    to = nullptr;
    client_.reset();
  }

 private:
  Http1Counters counters_;
  Recorder responses_;
  std::unique_ptr<Http1Client> client_;
};

// Without the Date of the server's own responses, which may differ between two runs.
std::string without_dates(std::string text) {
  constexpr std::string_view kDate = "\r\ndate: ";
  for (size_t at; (at = text.find(kDate)) != std::string::npos;) {
    text.erase(at, std::min(text.find("\r\n", at + kDate.size()), text.size()) - at);
  }
  return text;
}

// Passes the bytes piece by piece; between pieces the receiver may not read.
std::string feed(Http1Codec& connection, const test::CutInput& input, bool cut, uint8_t mode, HttpStream*& stream) {
  Buffer sent;
  const auto give = [&](std::string_view bytes) {
    const bool pause = cut && (mode & kPauses) && stream && connection.streams() > 0;
    if (pause) stream->set_reading(false);
    const Status status = connection.receive(test::heap_buffer_of(bytes));
    if (pause && stream) {
      stream->set_reading(true);
      connection.receive(Buffer());
    }
    SLUICE_CHECK(connection.status() == status || pause);
    SLUICE_CHECK((connection.status() == Status::kFailed) == !connection.error().empty());
    connection.flush(sent);
  };
  size_t begin = 0;
  if (cut) {
    for (const size_t at : input.cuts) {
      const size_t end = std::clamp(at, begin, input.bytes.size());
      if (end > begin) give(input.bytes.substr(begin, end - begin));
      begin = end;
    }
    connection.park();
  }
  give(input.bytes.substr(begin));
  return test::text_of(sent);
}

void check_requests(const test::CutInput& input, uint8_t mode) {
  Http1Options options;
  options.allow_connect = mode & kConnect;
  Http1Counters counters;
  ChunkPool& pool = *ChunkPool::current();
  const bool responds = !(mode & kNoResponse);
  Origin origin(responds), cut_origin(responds);
  Http1Server server(pool, options, counters, origin), cut_server(pool, options, counters, cut_origin);
  const std::string sent = feed(server, input, false, mode, origin.stream);
  const std::string cut_sent = feed(cut_server, input, true, mode, cut_origin.stream);
  SLUICE_CHECK(cut_origin.text == origin.text && without_dates(cut_sent) == without_dates(sent));
  SLUICE_CHECK(cut_server.status() == server.status() && cut_server.error() == server.error());
  SLUICE_CHECK(responds || origin.requests <= 1);
  server.receive_end();
  cut_server.receive_end();
  SLUICE_CHECK(cut_origin.text == origin.text && cut_server.status() == server.status());

  Proxy proxy;
  Http1Server front(pool, options, counters, proxy);
  front.receive(test::heap_buffer_of(input.bytes));
  proxy.check_next_hop();
}

// A client that has sent a request.
struct SentRequest {
  SentRequest(uint8_t mode, const Http1Options& options, Http1Counters& counters, Recorder& story)
      : client(*ChunkPool::current(), options, counters), stream(client.open_stream(story)) {
    ChunkPool& pool = *ChunkPool::current();
    Head head;
    SLUICE_CHECK(head.set(pool, Head::Part::kMethod,
                          mode & kConnect      ? "CONNECT"
                          : mode & kHeadMethod ? "HEAD"
                                               : "GET"));
    SLUICE_CHECK(head.set(pool, Head::Part::kAuthority, "a:1") && head.set(pool, Head::Part::kPath, "/"));
    stream->send_head(head, !(mode & kConnect));
  }

  Http1Client client;
  HttpStream* stream;
};

void check_response(const test::CutInput& input, uint8_t mode) {
  const Http1Options options{.limits = Http1Limits::of_responses()};
  Http1Counters counters;
  Recorder story, cut_story, next_story;
  SentRequest whole(mode, options, counters, story), cut(mode, options, counters, cut_story);
  feed(whole.client, input, false, mode, whole.stream);
  feed(cut.client, input, true, mode, cut.stream);
  SLUICE_CHECK(cut_story.text == story.text && cut.client.status() == whole.client.status());
  SLUICE_CHECK(cut.client.error() == whole.client.error());
  whole.client.receive_end();
  cut.client.receive_end();
  SLUICE_CHECK(cut_story.text == story.text && cut.client.status() == whole.client.status());
  SLUICE_CHECK(story.complete || whole.client.status() == Status::kFailed);

  // From one client through a server to the next.
  Recorder relay;
  Origin origin(false);
  Http1Server server(*ChunkPool::current(), kWide, counters, origin);
  SentRequest first(mode, options, counters, relay), next(mode, kWide, counters, next_story);
  Buffer wire;
  next.client.flush(wire);
  server.receive(std::move(wire));
  relay.to = origin.stream;
  first.client.receive(test::heap_buffer_of(input.bytes));
  first.client.receive_end();
  SLUICE_CHECK(relay.text == story.text);
  server.flush(wire);
  next.client.receive(std::move(wire));
  if (server.status() != Status::kOpen || server.output_ended()) next.client.receive_end();
  SLUICE_CHECK(next_story.complete == relay.complete);
  if (relay.complete) SLUICE_CHECK(next_story.text == relay.text);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  test::CutInput input = test::cut_input(data, size);
  if (input.bytes.empty()) return 0;
  const uint8_t mode = static_cast<uint8_t>(input.bytes.front());
  input.bytes.remove_prefix(1);
  static ChunkPool pool({.budget_bytes = size_t{64} << 20});
  ChunkPool::Use use(&pool);
  mode& kResponse ? check_response(input, mode) : check_requests(input, mode);
  SLUICE_CHECK(pool.leaked() == 0);
  return 0;
}

// Random messages from a client to a server and back, over a wire that cuts anywhere; and their costs.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "sluice/copied.h"
#include "test/proxy/http/h1/rig.h"
#include "test/support/allocations.h"

namespace sluice {
namespace {

class RoundTrips : public test::Http1Test {
 protected:
  RoundTrips() : server_(pool_, options_, counters_, origin_), client_(pool_, client_options_, counters_) {
    origin_.responds = false;
    options_.limits.requests = 1u << 30;
  }

  size_t below(size_t bound) { return random_() % bound; }
  std::string random_text(size_t most, std::string_view alphabet) {
    std::string text(below(most + 1), '\0');
    for (char& c : text) c = alphabet[below(alphabet.size())];
    return text;
  }
  void add_fields(Fields& fields) {
    for (size_t i = below(5); i > 0; --i) {
      const std::string value = random_text(30, "abc XYZ\t,;=\"/\xC3\xA4");
      const std::string trimmed(http1_trimmed(value));
      ASSERT_TRUE(fields.add(pool_, "x-" + random_text(8, "abc-019"), trimmed));
    }
  }
  static std::string_view http1_trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
  }
  // Moves all bytes that one side has to send to the other, in random pieces.
  void carry(HttpCodec& from, HttpCodec& to) {
    Buffer wire;
    from.flush(wire);
    while (!wire.empty()) {
      const size_t most = below(3) == 0 ? 3 : 5000;
      ASSERT_EQ(to.receive(wire.split_front(1 + below(std::min(wire.size(), most)))), HttpCodec::Status::kOpen)
          << to.error();
    }
  }
  // Sends a random body, with or without a length, to the end. Returns what the other side must receive.
  std::string send_message(HttpStream& stream, Head head, HttpCodec& from, HttpCodec& to, bool may_have_body) {
    std::vector<std::string> pieces(may_have_body ? below(4) : 0);
    size_t bytes = 0;
    for (std::string& piece : pieces) {
      piece = random_text(below(4) == 0 ? 20000 : 40, "abcdefgh\r\n0123");
      bytes += piece.size();
    }
    const bool with_length = below(2) == 0, trailers = !with_length && may_have_body && below(3) == 0;
    const bool at_once = pieces.empty() && !trailers;
    std::string expected = test::shown(head);
    if (with_length && may_have_body) {
      EXPECT_TRUE(head.fields.add(pool_, "content-length", std::to_string(bytes)));
      expected = test::shown(head);
    }
    stream.send_head(head, at_once);
    // A response of no bytes gets a length.
    if (at_once && may_have_body && !with_length && head.status != 0) {
      EXPECT_TRUE(head.fields.add(pool_, "content-length", "0"));
      expected = test::shown(head);
    }
    if (bytes > 0) expected += " '";
    for (size_t i = 0; i < pieces.size(); ++i) {
      expected += pieces[i];
      stream.send_body(body_of(pieces[i]), !trailers && i + 1 == pieces.size());
      if (below(2) == 0) carry(from, to);
    }
    if (bytes > 0) expected += "'";
    if (trailers) {
      Fields fields;
      add_fields(fields);
      stream.send_trailers(fields);
      expected += test::shown(fields);
    }
    carry(from, to);
    return expected + ".";
  }

  std::mt19937 random_{20260801};
  test::Http1Origin origin_;
  test::Http1Recorder recorder_;
  Http1Server server_;
  Http1Client client_;
};

TEST_F(RoundTrips, RandomMessages) {
  const char* const methods[] = {"GET", "HEAD", "DELETE", "QUERY"};
  const uint16_t statuses[] = {200, 201, 204, 304, 404, 599};
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    HttpStream* const up = client_.open_stream(recorder_);
    ASSERT_NE(up, nullptr) << client_.error();
    const std::string method = methods[below(4)];
    Head request = request_head(method, "/" + random_text(20, "abc/?%20&=."), "host-" + random_text(5, "abc.1"));
    add_fields(request.fields);
    origin_.text.clear();
    const std::string expected_request = send_message(*up, std::move(request), client_, server_, true);
    ASSERT_EQ(origin_.text, expected_request);

    recorder_.text.clear();
    std::string expected;
    for (size_t i = below(3); i > 0; --i) {
      Head informational = response_head(103);
      add_fields(informational.fields);
      expected += test::shown(informational) + ", ";
      origin_.stream->send_head(informational, false);
    }
    Head response = response_head(statuses[below(6)]);
    add_fields(response.fields);
    const bool body = method != "HEAD" && response.status != 204 && response.status != 304;
    expected += send_message(*origin_.stream, std::move(response), server_, client_, body);
    ASSERT_EQ(recorder_.text, expected);
    origin_.stream->release();
    up->release();
    recorder_.ended = false;
    ASSERT_EQ(client_.streams() + server_.streams(), 0u);
  }
  origin_.last.clear();
  recorder_.last.clear();
  EXPECT_EQ(pool_.out_bytes(), 0u) << "nothing is held between exchanges";
}

// ---- Costs ----

// A proxy's work without text: data that is read on one side is sent on the other.
class Forwarder final : public StreamReceiver {
 public:
  void on_head(HttpStream&, Head&& head, bool end) override {
    to->send_head(head, end);
    ended = end;
  }
  void on_body(HttpStream&, Buffer&& body, bool end) override {
    to->send_body(std::move(body), end);
    ended = end;
  }
  void on_trailers(HttpStream&, Fields&& trailers) override {
    to->send_trailers(trailers);
    ended = true;
  }
  void on_reset(HttpStream&, ResetReason) override { FAIL(); }
  void on_drained(HttpStream&) override {}

  HttpStream* to = nullptr;
  bool ended = false;
};

class Hop final : public HttpCodec::Acceptor {
 public:
  Hop(ChunkPool& pool, const Http1Options& options, const Http1Options& client_options, Http1Counters& counters)
      : server(pool, options, counters, *this), client(pool, client_options, counters) {}
  StreamReceiver& on_stream(HttpStream& stream) override {
    down = &stream;
    requests.to = client.open_stream(responses);
    responses.to = &stream;
    return requests;
  }

  Http1Server server;
  Http1Client client;
  Forwarder requests, responses;
  HttpStream* down = nullptr;
};

class CostTest : public RoundTrips, public testing::WithParamInterface<bool> {};

TEST_P(CostTest, AThousandForwardedRequestsAllocateAndCopyNothing) {
  const bool chunked = GetParam();
  Hop hop(pool_, options_, client_options_, counters_);
  const std::string request =
      "POST /path HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nUser-Agent: test\r\n" +
      std::string(chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 1000\r\n\r\n");
  const std::string response =
      "HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\n" +
      std::string(chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 1000\r\n\r\n");
  const std::string body = chunked ? "3e8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n" : std::string(1000, 'x');
  Buffer sent;
  const auto round = [&] {
    // The body arrives in pieces, in chunks of the pool.
    hop.server.receive(body_of(request));
    hop.server.receive(body_of(std::string_view(body).substr(0, 600)));
    hop.server.receive(body_of(std::string_view(body).substr(600)));
    hop.client.flush(sent);
    sent.clear();
    hop.client.receive(body_of(response));
    hop.client.receive(body_of(body));
    hop.server.flush(sent);
    sent.clear();
    SLUICE_CHECK(hop.requests.ended && hop.responses.ended);
    hop.down->release();
    hop.requests.to->release();
    SLUICE_CHECK(hop.server.receive(Buffer()) == HttpCodec::Status::kOpen);
    SLUICE_CHECK(hop.client.status() == HttpCodec::Status::kOpen);
  };
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(pool_.out_bytes(), 0u);
  const uint64_t allocated = test::allocations.load(), copied = copied_bytes;
  for (int i = 0; i < 1000; ++i) round();
  if (test::kAllocationsCounted) {
    EXPECT_EQ(test::allocations.load() - allocated, 0u);
  }
  EXPECT_EQ(copied_bytes - copied, 0u);
}

INSTANTIATE_TEST_SUITE_P(Bodies, CostTest, testing::Bool());

TEST_F(RoundTrips, WindowsOfChunksStayFew) {
  // Chunks of one byte each.
  std::string request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 1000; ++i) request += "1\r\nx\r\n";
  const uint64_t copied = copied_bytes;
  server_.receive(body_of(request));
  EXPECT_EQ(origin_.body_bytes, 1000u);
  EXPECT_LT(copied_bytes - copied, 2500u);
}

}  // namespace
}  // namespace sluice

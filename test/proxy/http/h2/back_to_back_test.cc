// A client and a server of ours, with only buffers between them: random messages, windows, cuts, stalls and resets.
//
//   SLUICE_PROPERTY_ROUNDS=100000 build/release/test/proxy_test --gtest_filter='Http2BackToBack.*'

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

// One direction of an exchange: the bytes to send, and the bytes that have arrived.
struct Message {
  FieldList fields;
  FieldList trailers;
  std::string body;
  size_t given = 0;
  bool head_given = false, end_given = false;
  bool with_trailers = false;
};

// Receives one message and sends another.
struct Side final : StreamReceiver {
  void on_head(HttpStream&, Head&& head, bool e) override {
    ASSERT_FALSE(end || was_reset || (has_head && !informational));
    informational = head.status >= 100 && head.status < 200;
    has_head = true;
    if (informational) return;
    got = std::move(head);
    end = e;
  }
  void on_body(HttpStream&, Buffer&& b, bool e) override {
    ASSERT_TRUE(has_head && !informational && !end && !was_reset);
    body += sluice::test::text_of(b);
    end = e;
  }
  void on_trailers(HttpStream&, Fields&& fields) override {
    ASSERT_TRUE(has_head && !informational && !end && !was_reset);
    got_trailers = std::move(fields);
    end = true;
  }
  void on_reset(HttpStream&, ResetReason) override {
    ASSERT_FALSE(was_reset);
    was_reset = true;
  }
  void on_drained(HttpStream&) override { ASSERT_FALSE(was_reset); }

  HttpStream* stream = nullptr;
  Message to_send;
  Head got;
  Fields got_trailers;
  std::string body;
  bool has_head = false, informational = false, end = false, was_reset = false, reset_sent = false, reading = true;
};

class Http2BackToBack : public PoolTest, public HttpCodec::Acceptor {
 protected:
  Http2BackToBack() : PoolTest(size_t{256} << 20) {}

  StreamReceiver& on_stream(HttpStream& stream) override {
    servers_.push_back(std::make_unique<Side>());
    servers_.back()->stream = &stream;
    return *servers_.back();
  }

  size_t below(size_t bound) { return random_() % bound; }
  Message random_message() {
    Message message;
    for (size_t i = below(6); i > 0; --i) {
      message.fields.emplace_back("x-" + std::to_string(below(30)),
                                  std::string(below(below(10) == 0 ? 2000 : 20), 'v'));
    }
    message.body.resize(below(below(4) == 0 ? 200'000 : 3000));
    for (char& c : message.body) c = static_cast<char>(random_());
    message.with_trailers = below(3) == 0;
    if (message.with_trailers) message.trailers.emplace_back("x-trailer", std::to_string(below(1000)));
    return message;
  }
  static FieldList list(const Fields& fields) {
    FieldList all;
    for (const Fields::Field f : fields) all.emplace_back(f.name, f.value);
    return all;
  }

  void send_some(Side& side, bool server) {
    if (side.was_reset || side.reset_sent || !side.stream) return;
    Message& message = side.to_send;
    if (!message.head_given) {
      if (server && !side.has_head) return;
      if (server && below(4) == 0) side.stream->send_head(response(pool_, 103), false);
      Head head = server ? response(pool_, 200, message.fields) : request(pool_, "POST", message.fields);
      message.head_given = true;
      message.end_given = message.body.empty() && !message.with_trailers && below(2) == 0;
      side.stream->send_head(head, message.end_given);
    } else if (!message.end_given) {
      const size_t size = std::min(message.body.size() - message.given, below(30'000));
      const std::string_view piece = std::string_view(message.body).substr(message.given, size);
      message.given += size;
      const bool last = message.given == message.body.size();
      if (last && message.with_trailers) {
        Fields trailers;
        for (const auto& [name, value] : message.trailers) ASSERT_TRUE(trailers.add(pool_, name, value));
        side.stream->send_body(sluice::test::buffer_of(pool_, piece, splits_every(4096, size)), false);
        side.stream->send_trailers(trailers);
        message.end_given = true;
      } else {
        message.end_given = last && below(2) == 0;
        side.stream->send_body(sluice::test::buffer_of(pool_, piece, splits_every(4096, size)), message.end_given);
      }
    }
  }

  void carry(Http2Codec& from, Http2Codec& to, Buffer& wire) {
    if (from.has_output() && below(3) > 0) from.flush(wire);
    const size_t size = below(4) == 0 ? wire.size() : std::min(wire.size(), below(below(3) == 0 ? 20 : 20'000));
    ASSERT_EQ(to.receive(wire.split_front(size)), HttpCodec::Status::kOpen) << to.error();
  }

  void check_message(const Side& from, const Side& to, bool server_to_client) {
    if (to.was_reset || to.reset_sent || from.was_reset || from.reset_sent) {
      EXPECT_TRUE(std::string_view(from.to_send.body).starts_with(to.body));
      return;
    }
    ASSERT_TRUE(to.end);
    EXPECT_EQ(list(to.got.fields), from.to_send.fields);
    EXPECT_EQ(list(to.got_trailers), from.to_send.trailers);
    EXPECT_TRUE(to.body == from.to_send.body);
    EXPECT_EQ(to.got.status, server_to_client ? 200 : 0);
  }

  void round(uint64_t seed);

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Side>> servers_;
};

void Http2BackToBack::round(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_.seed(seed);
  Http2Limits limits;
  limits.stream_window_bytes = static_cast<uint32_t>(below(2) ? 1 + below(3000) : 65536);
  limits.connection_window_bytes = static_cast<uint32_t>(65535 + below(100'000));
  limits.flush_bytes = static_cast<uint32_t>(1 + below(40'000));
  limits.header_fields = 128;
  limits.window_updates = 100'000'000;
  Http2Counters counters;
  const Http2Codec::Shared shared{pool_, limits, counters};
  Http2Codec server(shared, this), client(shared);
  Buffer up, down;
  std::vector<std::unique_ptr<Side>> clients;
  const size_t messages = 1 + below(12);
  const bool stalls = below(3) == 0;
  const bool resets = below(3) == 0;

  for (int step = 0; step < 200'000; ++step) {
    if (clients.size() < messages && below(4) == 0) {
      auto side = std::make_unique<Side>();
      side->to_send = random_message();
      side->stream = client.open_stream(*side);
      if (side->stream) clients.push_back(std::move(side));
    }
    for (auto& side : clients) {
      if (below(3) == 0) send_some(*side, false);
    }
    for (auto& side : servers_) {
      if (side->to_send.fields.empty() && !side->to_send.head_given && side->to_send.body.empty()) {
        side->to_send = random_message();
      }
      if (below(3) == 0) send_some(*side, true);
    }
    if (stalls || resets) {
      for (auto* sides : {&clients, &servers_}) {
        for (auto& side : *sides) {
          if (!side->stream || side->was_reset || side->reset_sent) continue;
          if (stalls && below(20) == 0) side->stream->set_reading(side->reading = !side->reading);
          if (resets && below(500) == 0) {
            side->stream->reset(ResetReason::kCancelled);
            side->reset_sent = true;
          }
        }
      }
    }
    carry(client, server, up);
    carry(server, client, down);
    if (HasFatalFailure()) return;
    if (below(200) == 0) client.park(), server.park();
    if (clients.size() == messages && client.streams() == 0 && server.streams() == 0 && up.empty() && down.empty() &&
        !client.has_output() && !server.has_output()) {
      break;
    }
    // A reader that stalls forever is not tested here.
    if (step == 5000) {
      for (auto* sides : {&clients, &servers_}) {
        for (auto& side : *sides) side->stream->set_reading(true);
      }
    }
  }
  EXPECT_EQ(client.streams(), 0u);
  EXPECT_EQ(server.streams(), 0u);
  // Streams have the same order on both sides, except where a head was never sent.
  size_t at = 0;
  for (auto& side : clients) {
    if (!side->to_send.head_given) continue;
    auto* stream = static_cast<Http2Stream*>(side->stream);
    for (auto& other : servers_) {
      if (static_cast<Http2Stream*>(other->stream)->id() != stream->id()) continue;
      check_message(*side, *other, false);
      check_message(*other, *side, true);
      ++at;
    }
  }
  EXPECT_EQ(at, servers_.size());
  for (auto* sides : {&clients, &servers_}) {
    for (auto& side : *sides) side->stream->release();
  }
  servers_.clear();
  EXPECT_EQ(counters.malformed, 0u);
}

TEST_F(Http2BackToBack, RandomMessages) {
  const char* rounds = std::getenv("SLUICE_PROPERTY_ROUNDS");
  const uint64_t count = rounds ? std::strtoull(rounds, nullptr, 10) : 100;
  for (uint64_t seed = 0; seed < count && !HasFailure(); ++seed) round(seed);
}

}  // namespace
}  // namespace sluice::test::http2

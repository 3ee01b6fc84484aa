// Any bytes as what another process hands over in an upgrade: a socket, a session, the state of an HTTP/2 connection,
// what an access log knows of a connection. They are refused, or give a value that is written as the same bytes; a
// connection that continues takes input and ends. Nothing is left in the pool.
//
// Input: the first byte chooses what the rest is.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "alts_like/record_state.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/l4/connection_log.h"
#include "proxy/server/handed_values.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

// Refuses all streams.
class NoRequests final : public HttpCodec::Acceptor, public StreamReceiver {
 public:
  StreamReceiver& on_stream(HttpStream& stream) override {
    stream.release();
    return *this;
  }
  bool admits(size_t, size_t) override { return true; }
  void on_head(HttpStream&, Head&&, bool) override {}
  void on_body(HttpStream&, Buffer&&, bool) override {}
  void on_trailers(HttpStream&, Fields&&) override {}
  void on_reset(HttpStream&, ResetReason) override {}
  void on_drained(HttpStream&) override {}
};

void read_connection(std::span<const uint8_t> bytes) {
  static ChunkPool pool({.budget_bytes = size_t{64} << 20});
  const ChunkPool::Use use(&pool);
  {
    const Http2Limits limits;
    Http2Counters counters;
    const Http2Codec::Shared shared{pool, limits, counters};
    NoRequests requests;
    StateReader in(bytes);
    const bool is_server = !bytes.empty() && bytes[0] != 0;
    const std::unique_ptr<Http2Codec> codec = Http2Codec::resume(shared, is_server ? &requests : nullptr, in);
    if (codec) {
      for (HttpStream* const stream : codec->take_streams()) {
        stream->hand_over(requests);
        stream->set_reading(true);
      }
      codec->set_now(1000);
      constexpr std::string_view kPing(
          "\0\0\x08\x06\0\0\0\0\0"
          "abcdefgh",
          17);
      (void)codec->receive(test::heap_buffer_of(kPing));
      for (Buffer out; codec->has_output();) codec->flush(out);
      (void)codec->receive_end();
    }
  }
  SLUICE_CHECK(pool.leaked() == 0);
}

// What was read can be written and read again. Its times go on meanwhile.
void read_log(std::span<const uint8_t> bytes) {
  constexpr int kNoBell = -1;
  AccessLogWriter writer(kNoBell);
  ListenerLog to(writer, {});
  ConnectionLog log(to), again(to);
  StateReader in(bytes);
  if (!log.read_state(in)) return;
  SecretBytes first, second;
  StateWriter out_first(first), out_second(second);
  log.write_state(out_first);
  StateReader back(first);
  SLUICE_CHECK(again.read_state(back) && back.done());
  again.write_state(out_second);
  SLUICE_CHECK(first.size() == second.size());
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  const SecretBytes bytes(rest.begin(), rest.end());
  SecretBytes again;
  if (data[0] % 4 == 0) {
    HandedSocket socket;
    if (!socket.read(bytes)) return 0;
    socket.write(again);
    SLUICE_CHECK(again == bytes);
  } else if (data[0] % 4 == 1) {
    MovingSession session;
    if (!read_session(bytes, session)) return 0;
    write_session(session, again);
    SLUICE_CHECK(again == bytes);
  } else if (data[0] % 4 == 2) {
    read_log(rest);
  } else {
    read_connection(rest);
  }
  return 0;
}

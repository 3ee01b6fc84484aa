// Anything that a HandshakerService may send: any bytes as its HTTP/2, our frames with any contents, or any response to
// a negotiation. In all cases calls get their response or the reason for its absence, accepted results have passed the
// checks, and nothing is held when everything is destroyed.
//
// Input: a byte that chooses between the channel and the negotiation, then as described by the comment at each read
// below.

#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alts_like/handshaker_negotiation.h"
#include "alts_like/handshaker_text.h"
#include "proxy/alts/handshaker_channel.h"
#include "sluice/internal/check.h"
#include "test/alts_like/handshaker_fake.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

class Caller final : public HandshakerChannel::Caller {
 public:
  void on_response(std::string&& response) override {
    SLUICE_CHECK(pending && !over && response.size() <= HandshakerChannel::kMaxMessageBytes);
    pending = false;
  }
  void on_end(std::string error, bool) override {
    SLUICE_CHECK(!over && is_printable(error) && error.starts_with("the handshaker service ") && error.size() < 1000);
    over = true;
  }
  bool pending = true;
  bool over = false;
};

class Fuzz : test::FuzzInput {
 public:
  Fuzz(const uint8_t* data, size_t size) : FuzzInput(data, size) {}

  void run() {
    byte() % 2 == 0 ? channel() : negotiation();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

 private:
  Buffer buffer_of(std::string_view bytes) {
    Buffer buffer;
    SLUICE_CHECK(buffer.append_copy(pool_, bytes));
    return buffer;
  }

  // ---- The channel

  void channel() {
    HandshakerChannel channel(pool_, "127.0.0.1:1");
    Buffer out;
    SLUICE_CHECK(channel.produce(out, SIZE_MAX));
    while (!used_up() && step(channel)) {
    }
    for (auto& caller : callers_) {
      if (caller && !caller->over && caller->stream) channel.close(*caller, false);
    }
    channel.fail("the handshaker service is no longer called");
    SLUICE_CHECK(channel.calls() == 0);
  }

  // A step: its kind, and its caller or stream.
  bool step(HandshakerChannel& channel) {
    const uint8_t kind = byte() % 16, which = byte() % kCallers;
    std::unique_ptr<Caller>& caller = callers_[which];
    const bool open = caller && caller->stream;
    SLUICE_CHECK(!caller || open || caller->over);
    switch (kind) {
      case 0:  // Raw bytes.
        return receive(channel, std::string(take(byte())));
      case 1: {  // SETTINGS.
        const int flags = byte() & 1;
        return receive(channel, frame(4, flags, 0, take(byte() % 3 * 6)));
      }
      case 2:
      case 3:
        if (open || !channel.ready() || channel.leaving() || !channel.has_room()) return true;
        caller = std::make_unique<Caller>();
        channel.open(*caller, take(byte()));
        break;
      case 4:
        if (open && !caller->pending) {
          caller->pending = true;
          channel.send(*caller, take(byte()));
        }
        break;
      case 5:
        if (open) channel.close(*caller, byte() & 1);
        if (open) caller.reset();
        break;
      case 6:
        channel.reset_done();
        break;
      case 7: {  // The head of a response: a status and the type.
        const int flags = 4 | (byte() & 1);
        return receive(channel, frame(1, flags, id(which), head()));
      }
      case 8: {  // Trailers.
        std::string trailers = field("grpc-status", take(byte() % 4));
        trailers += field("grpc-message", take(byte()));
        return receive(channel, frame(1, 5, id(which), trailers));
      }
      case 9: {  // A message, possibly a part of one.
        std::string message(take(byte()));
        if (byte() % 8 == 0) message.resize(message.size() * byte());
        message = std::string("\0\0", 2) + static_cast<char>(message.size() >> 16) +
                  static_cast<char>(message.size() >> 8) + static_cast<char>(message.size()) + message;
        message.resize(message.size() - std::min<size_t>(message.size(), byte() % 8));
        const int flags = byte() & 1;
        return receive(channel, frame(0, flags, id(which), message.substr(0, 16384)));
      }
      case 10: {  // RST_STREAM, or a window of any kind.
        const uint8_t type = byte() & 1 ? 3 : 8;
        return receive(channel, frame(type, 0, id(which), take(4)));
      }
      case 11:  // GOAWAY.
        return receive(channel, frame(7, 0, 0, take(8 + byte() % 8)));
      default: {  // A frame of any type.
        const uint8_t type = byte(), flags = byte();
        return receive(channel, frame(type, flags, id(which), take(byte())));
      }
    }
    return flush(channel);
  }

  static std::string frame(uint8_t type, int flags, uint32_t stream, std::string_view payload) {
    std::string bytes;
    for (int shift = 16; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(payload.size() >> shift));
    bytes += static_cast<char>(type);
    bytes += static_cast<char>(flags);
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(stream >> shift));
    return bytes + std::string(payload);
  }
  static uint32_t id(uint8_t which) { return 2u * which + 1; }
  // An HPACK literal, not indexed. Precondition: both are short.
  static std::string field(std::string_view name, std::string_view value) {
    value = value.substr(0, 100);
    return std::string(1, '\0') + static_cast<char>(name.size()) + std::string(name) + static_cast<char>(value.size()) +
           std::string(value);
  }
  std::string head() {
    const uint8_t kind = byte();
    std::string fields = kind % 8 == 0 ? field(":status", take(3)) : "\x88";  // 200
    fields += field("content-type", kind % 16 == 1 ? take(8) : "application/grpc");
    if (kind % 4 == 2) fields += field("grpc-status", take(2));
    return fields;
  }

  bool receive(HandshakerChannel& channel, std::string_view bytes) {
    const size_t cut = 1 + byte() * 4u;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, cut);
      bytes.remove_prefix(part.size());
      if (!channel.receive(buffer_of(part))) return broken(channel);
    }
    return flush(channel);
  }
  bool flush(HandshakerChannel& channel) {
    Buffer out;
    return channel.produce(out, SIZE_MAX) || broken(channel);
  }
  static bool broken(const HandshakerChannel& channel) {
    SLUICE_CHECK(!channel.error().empty() && is_printable(channel.error()) && channel.calls() == 0);
    return false;
  }

  // ---- The negotiation

  void negotiation() {
    const uint8_t flags = byte();
    AltsOptions options;
    options.is_client = flags & 1;
    if (flags & 2) options.record_protocols.push_back(AltsProtocol::kAes128Gcm);
    if (flags & 4) options.target_service_accounts = {"peer@example.com"};
    AltsNegotiation negotiation(options);
    std::string frames;
    for (int i = 0; i < 1000 && !used_up() && negotiation.status() == AltsNegotiation::Status::kInProgress; ++i) {
      if (byte() % 2 == 0) {  // The peer.
        const std::string bytes(take(byte()));
        negotiation.receive(pool_, buffer_of(bytes));
        received_ += bytes.size();
        continue;
      }
      if (!negotiation.waiting() && !negotiation.request()) continue;
      negotiation.digest(response(), frames);
      SLUICE_CHECK(negotiation.status() == AltsNegotiation::Status::kFailed || !negotiation.waiting());
    }
    SLUICE_CHECK(frames.size() <= AltsNegotiation::kMaxOutBytes);
    const bool failed = negotiation.status() == AltsNegotiation::Status::kFailed;
    SLUICE_CHECK(failed == !negotiation.error().empty() && is_printable(negotiation.error()));
    if (negotiation.status() != AltsNegotiation::Status::kDone) return;
    const AltsResult result = negotiation.take_result();
    SLUICE_CHECK(result.key_data.size() == (result.record_protocol == AltsProtocol::kAes128Gcm ? 16 : 44));
    SLUICE_CHECK(result.application_protocol == "grpc" && result.leftover.size() <= received_);
    SLUICE_CHECK(!result.peer_identity.empty() && is_printable(result.peer_identity));
    SLUICE_CHECK(!(options.is_client && flags & 4) || result.peer_identity == "peer@example.com");
    SLUICE_CHECK(result.max_frame_bytes >= 16384 && result.max_frame_bytes <= 1 << 20);
  }

  // Any bytes, or a valid response except for a few fields.
  std::string response() {
    const uint8_t kind = byte();
    if (kind < 128) return std::string(take(kind));
    test::FakeResponse made;
    made.bytes_consumed = kind & 1 ? byte() : 0;
    if (kind & 2) made.out_frames = take(byte());
    if (kind & 4) {
      made.result = test::FakeResult();
      if (kind & 8) made.result->peer_account = take(byte() % 32);
      if (kind & 16) made.result->key_data = take(byte() % 64);
      if (kind & 32) made.result->record_protocol = "ALTSRP_GCM_AES128";
      if (kind & 64) made.result->max_frame_bytes = byte() * 65536u;
    } else if (kind & 8) {
      const uint32_t code = byte() % 20;
      made.status = {{code, std::string(take(byte()))}};
    }
    return made.bytes();
  }

  static constexpr size_t kCallers = 8;

  // Kept between runs: creating it takes longer than most runs.
  static ChunkPool& the_pool() {
    static ChunkPool pool({.budget_bytes = size_t{64} << 20});
    static ChunkPool::Use use(&pool);
    return pool;
  }

  ChunkPool& pool_ = the_pool();
  std::array<std::unique_ptr<Caller>, kCallers> callers_;
  size_t received_ = 0;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
#if __has_include(<google/protobuf/stubs/logging.h>)
  static const auto silent = google::protobuf::SetLogHandler(nullptr);  // It logs each malformed text.
  static_cast<void>(silent);
#endif
  sluice::Fuzz(data, size).run();
  return 0;
}

// A connection of either side against a peer that sends anything: complete and nearly valid frames, or bytes. The
// application does anything that its contract allows. In all cases receivers are called in order, the output is HTTP/2
// and within the peer's windows, memory stays bounded, and no chunk is left.
//
// Input: a byte of flags, then steps as described by the comments of step().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h2/http2_codec.h"
#include "sluice/internal/check.h"
#include "test/support/buffers.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

using Type = Http2FrameType;

// Checks the order of the calls, and sometimes does what a receiver may do in them.
struct Receiver final : StreamReceiver {
  void on_head(HttpStream& s, Head&& head, bool end) override {
    SLUICE_CHECK(!released && !ended && !was_reset && !has_head);
    const bool informational = head.status >= 100 && head.status < 200;
    SLUICE_CHECK(!informational || !end);
    has_head = !informational;
    ended = end;
    act(s);
  }
  void on_body(HttpStream& s, Buffer&& body, bool end) override {
    SLUICE_CHECK(!released && has_head && !ended && !was_reset && (end || !body.empty()));
    ended = end;
    act(s);
  }
  void on_trailers(HttpStream& s, Fields&&) override {
    SLUICE_CHECK(!released && has_head && !ended && !was_reset);
    ended = true;
    act(s);
  }
  void on_reset(HttpStream& s, ResetReason) override {
    SLUICE_CHECK(!released && !was_reset && !reset_sent);
    was_reset = true;
    act(s);
  }
  void on_drained(HttpStream& s) override {
    SLUICE_CHECK(!released && !was_reset && !reset_sent);
    act(s);
  }
  void act(HttpStream& s) {
    const uint8_t what = std::exchange(next_act, uint8_t{0});
    if (what == 1) {
      released = true;
      s.release();
    } else if (what == 2 && !was_reset) {
      reset_sent = true;
      s.reset(ResetReason::kCancelled);
    } else if (what == 3) {
      s.set_reading(false);
    } else if (what >= 4) {
      act_on_another((*all)[what % all->size()].get(), what);
    }
  }
  static void act_on_another(Receiver* other, uint8_t what) {
    if (other->released) return;
    if (what % 4 == 0) {
      other->released = true;
      other->stream->release();
    } else if (what % 4 == 1) {
      other->reset_sent = true;
      other->stream->reset(ResetReason::kTimeout);
    } else if (what % 4 == 2) {
      other->stream->set_reading(true);
    } else if (other->head_sent && !other->end_sent && !other->was_reset && !other->reset_sent) {
      other->end_sent = true;
      other->stream->send_body(test::heap_buffer_of("a body"), true);
    }
  }

  const std::vector<std::unique_ptr<Receiver>>* all = nullptr;
  HttpStream* stream = nullptr;
  uint8_t next_act = 0;
  bool has_head = false, ended = false, was_reset = false, reset_sent = false, released = false;
  bool head_sent = false, end_sent = false;
};

class Fuzz final : test::FuzzInput, HttpCodec::Acceptor {
 public:
  Fuzz(ChunkPool& pool, const uint8_t* data, size_t size) : FuzzInput(data, size), pool_(pool) {}

  void run() {
    const uint8_t flags = byte();
    server_ = (flags & 1) == 0;
    limits_.requests = 50;
    if (flags & 2) limits_.streams = 3;
    if (flags & 4) limits_.stream_window_bytes = 100;
    if (flags & 8) limits_.flush_bytes = 50;
    {
      Http2Codec connection(shared_, server_ ? this : nullptr);
      connection_ = &connection;
      if (server_) give(kHttp2Preface);
      if ((flags & 16) == 0) give_frame(Type::kSettings, 0, 0, "");
      while (!used_up()) {
        step();
        SLUICE_CHECK(pool_.out_bytes() < size_t{4} << 20);
      }
      if (flags & 32) connection.receive_end();
      flush();
      for (auto& receiver : receivers_) {
        if (!receiver->released && (flags & 64)) release(*receiver);
      }
    }
    decoder_.reset();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

 private:
  uint32_t number() { return uint32_t{byte()} << 24 | uint32_t{byte()} << 16 | uint32_t{byte()} << 8 | byte(); }

  StreamReceiver& on_stream(HttpStream& stream) override {
    receivers_.push_back(std::make_unique<Receiver>());
    receivers_.back()->stream = &stream;
    receivers_.back()->all = &receivers_;
    receivers_.back()->next_act = next_act_;
    next_act_ = 0;
    return *receivers_.back();
  }
  void release(Receiver& receiver) {
    receiver.released = true;
    receiver.stream->release();
  }

  // ---- The peer ----

  void give(std::string_view bytes) {
    const size_t cut = cut_ == 0 ? bytes.size() : cut_;
    for (size_t at = 0; at < bytes.size(); at += cut) {
      const std::string_view piece = bytes.substr(at, cut);
      const HttpCodec::Status status = connection_->receive(test::heap_buffer_of(piece));
      SLUICE_CHECK((status == HttpCodec::Status::kFailed) == !connection_->error().empty());
      SLUICE_CHECK(status != HttpCodec::Status::kEnded || connection_->streams() == 0);
    }
  }
  void give_frame(Type type, uint8_t flags, uint32_t stream, std::string_view payload) {
    std::string frame(Http2FrameHeader::kBytes, '\0');
    Http2FrameHeader{static_cast<uint32_t>(payload.size()), type, flags, stream}.write(
        reinterpret_cast<std::byte*>(frame.data()));
    give(frame.append(payload));
  }
  static std::string big_endian(uint32_t value) {
    std::string bytes(4, '\0');
    write_frame_u32(reinterpret_cast<std::byte*>(bytes.data()), value);
    return bytes;
  }
  static std::string text(std::string_view text) {
    text = text.substr(0, 126);
    return std::string(1, static_cast<char>(text.size())) + std::string(text);
  }
  static std::string literal(std::string_view name, std::string_view value, char kind = 0) {
    return std::string(1, kind) + text(name) + text(value);
  }
  // A stream that is, was, or will be open.
  uint32_t stream_number() {
    const uint8_t which = byte();
    return which < 200 ? uint32_t{which} % 16 * 2 + 1 : which % 8;
  }
  std::string head_block() {
    const uint8_t kind = byte();
    std::string block;
    if (kind % 8 == 0) {
      block = take(byte());  // Any bytes.
    } else if (kind % 8 == 1) {
      block = literal("x-trailer", take(byte() % 32));
    } else if (server_) {
      block = literal(":method", kind % 8 == 2 ? "CONNECT" : "POST") + literal(":scheme", "https") +
              literal(":path", "/") + literal(":authority", "a", 0x40);
      if (kind % 8 == 2) block += literal(":protocol", "websocket");
    } else {
      const char* statuses[] = {"200", "103", "204", "304", "500", "20", "101"};
      block = literal(":status", statuses[kind / 8 % 7]);
    }
    if (kind & 64) block += literal("content-length", std::to_string(byte() % 40));
    if (kind & 128) {
      for (size_t i = byte() % 140; i > 0; --i) block += literal(i % 2 ? "cookie" : "x", "abc", i % 3 ? 0 : 0x40);
    }
    return block;
  }

  // A kind, then as described for each.
  void step() {
    const uint8_t kind = byte() % 32;
    switch (kind) {
      case 0: {  // Bytes, which the model does not interpret.
        exact_ = false;
        return give(take(byte()));
      }
      case 1: {  // Any frame.
        exact_ = false;
        const auto type = static_cast<Type>(byte() % 18);
        const uint8_t flags = byte();
        const uint32_t stream = stream_number();
        return give_frame(type, flags, stream, take(byte()));
      }
      case 2:
      case 3:
      case 4:
      case 5: {
        const uint32_t stream = stream_number();
        const uint8_t flags = kind < 4 ? uint8_t{4} : kind == 4 ? uint8_t{5} : byte() & 0x05;
        const std::string block = head_block();
        give_frame(Type::kHeaders, flags, stream, block);
        for (size_t more = flags & 4 ? 0 : byte() % 12; more > 0; --more) {
          give_frame(Type::kContinuation, more == 1 ? 4 : 0, stream, take(byte() % 64));
        }
        return;
      }
      case 6:
      case 7:
      case 8: {
        const uint32_t stream = stream_number();
        const uint8_t size = byte();
        const bool large = size >= 250;
        std::string payload(large ? 16384 : size, 'd');
        const uint8_t flags = kind == 8 ? byte() & 9 : 0;
        if (!payload.empty() && (flags & 8)) payload[0] = static_cast<char>(byte() % 64);
        return give_frame(Type::kData, flags, stream, payload);
      }
      case 9:
        return give_frame(Type::kRstStream, 0, stream_number(), big_endian(byte() % 16));
      case 10:
      case 11: {
        const uint32_t stream = kind == 10 ? 0 : stream_number();
        const uint32_t more = byte() % 8 == 0 ? number() : byte();
        give_frame(Type::kWindowUpdate, 0, stream, big_endian(more));
        credits_[stream] += more & kHttp2MaxStream;
        return;
      }
      case 12: {
        std::string entries;
        int64_t window = -1;
        for (size_t i = byte() % 5; i > 0; --i) {
          const auto name = static_cast<char>(byte() % 10);
          const uint32_t value = byte() % 8 == 0 ? number() : uint32_t{byte()} * (name == 5 ? 20000u : 1u);
          entries += std::string{0, name} + big_endian(value);
          if (name == 4) window = value;
        }
        if (window >= 0) first_window_ = window;
        return give_frame(Type::kSettings, 0, 0, entries);
      }
      case 13:
        return give_frame(Type::kSettings, 1, 0, "");
      case 14:
        return give_frame(Type::kPing, byte() & 1, 0, byte() % 2 ? "draining" : "12345678");
      case 15:
        return give_frame(Type::kGoaway, 0, 0, big_endian(byte() % 64 == 0 ? 0x7fffffff : byte() % 32) + big_endian(0));
      case 16:
        return give_frame(Type::kPriorityUpdate, 0, 0, big_endian(stream_number()) + std::string(take(byte() % 32)));
      case 17:
        cut_ = byte() % 32;
        return;
      case 18:
        connection_->set_now(now_ms_ += byte() * 10u);
        return;
      case 19:
        connection_->park();
        return;
      case 20:
        if (byte() % 16 == 0) connection_->drain();
        return;
      case 21:
        next_act_ = byte() % 64;
        return;
      case 22:
      case 23:
        return flush();
      case 24:
        if (!server_) open();
        return;
      default:
        return application(kind);
    }
  }

  // ---- The application ----

  void open() {
    auto receiver = std::make_unique<Receiver>();
    receiver->all = &receivers_;
    receiver->stream = connection_->open_stream(*receiver);
    if (!receiver->stream) return;
    receivers_.push_back(std::move(receiver));
  }
  Buffer body() {
    const size_t size = byte() * (byte() % 4 == 0 ? 300u : 1u);
    return test::heap_buffer_of(std::string(size, 'b'), test::splits_every(1000, size));
  }
  void application(uint8_t kind) {
    if (receivers_.empty()) return;
    Receiver& receiver = *receivers_[byte() % receivers_.size()];
    if (receiver.released) return;
    HttpStream& stream = *receiver.stream;
    const bool sends = !receiver.was_reset && !receiver.reset_sent && !receiver.end_sent;
    switch (kind) {
      case 25: {
        if (!sends || receiver.head_sent || (server_ && !receiver.has_head)) return;
        const uint8_t how = byte();
        Head head;
        bool kept = true;
        if (server_) {
          head.status = how % 4 == 0 ? 103 : 200;
        } else {
          kept = head.set(pool_, Head::Part::kMethod, how % 4 == 0 ? "HEAD" : "GET") &&
                 head.set(pool_, Head::Part::kPath, "/") && head.set(pool_, Head::Part::kScheme, "http");
          if (how % 4 == 1) kept = kept && head.set(pool_, Head::Part::kProtocol, "websocket");
        }
        for (size_t i = how / 8; i > 0; --i) kept = kept && head.fields.add(pool_, "x-" + std::to_string(i), "value");
        SLUICE_CHECK(kept);
        const bool informational = head.status == 103;
        receiver.head_sent = !informational;
        receiver.end_sent = !informational && (how & 4) != 0;
        return stream.send_head(head, receiver.end_sent);
      }
      case 26:
      case 27:
      case 28:
        if (!sends || !receiver.head_sent || stream.queued() > 200'000) return;
        receiver.end_sent = kind == 28 && byte() % 2 == 0;
        return stream.send_body(body(), receiver.end_sent);
      case 29: {
        if (!sends || !receiver.head_sent) return;
        Fields trailers;
        const bool kept = byte() % 4 == 0 || trailers.add(pool_, "x-sum", "1");
        SLUICE_CHECK(kept);
        receiver.end_sent = true;
        return stream.send_trailers(trailers);
      }
      case 30:
        return stream.set_reading(byte() % 2 == 0);
      default:
        receiver.next_act = byte() % 64;
        if (byte() % 2 == 0) return;
        if (byte() % 2 == 0) return release(receiver);
        receiver.reset_sent = true;
        return stream.reset(static_cast<ResetReason>(byte() % 8));
    }
  }

  // ---- The output ----

  void flush() {
    Buffer out;
    connection_->flush(out);
    wire_ += test::text_of(out);
    if (!server_ && !preface_seen_) {
      SLUICE_CHECK(wire_.starts_with(kHttp2Preface));
      wire_.erase(0, kHttp2Preface.size());
      preface_seen_ = true;
    }
    size_t at = 0;
    while (at < wire_.size()) {  // A flush returns whole frames.
      SLUICE_CHECK(wire_.size() - at >= Http2FrameHeader::kBytes);
      const auto header = Http2FrameHeader::read(std::as_bytes(std::span(wire_)).subspan(at));
      SLUICE_CHECK(wire_.size() - at - Http2FrameHeader::kBytes >= header.length);
      check_sent(header, std::string_view(wire_).substr(at + Http2FrameHeader::kBytes, header.length));
      at += Http2FrameHeader::kBytes + header.length;
    }
    wire_.clear();
  }
  void check_sent(const Http2FrameHeader& header, std::string_view payload) {
    SLUICE_CHECK(header.length <= kHttp2FrameBytes);
    SLUICE_CHECK(block_of_ == 0 || (header.type == Type::kContinuation && header.stream == block_of_));
    const bool end = header.has(Http2FrameHeader::kEndStream);
    const uint32_t id = header.stream;
    switch (header.type) {
      case Type::kHeaders:
        SLUICE_CHECK(id != 0 && !over_.contains(id));
        block_.clear();
        if (end) ending_ = id;
        [[fallthrough]];
      case Type::kContinuation: {
        block_ += payload;
        block_of_ = header.has(Http2FrameHeader::kEndHeaders) ? 0 : id;
        if (block_of_ != 0) return;
        Http2HeaderBlock block(Http2HeaderBlock::Kind::kIgnored);
        const auto status = decoder_->decode(pool_, limits_, test::heap_buffer_of(block_), true, block);
        SLUICE_CHECK(status == HpackDecoder::Status::kGood);
        open_.insert(id);
        if (std::exchange(ending_, 0u) == id) over_.insert(id);
        return;
      }
      case Type::kData:
        SLUICE_CHECK(open_.contains(id) && !over_.contains(id));
        sent_[id] += header.length;
        sent_[0] += header.length;
        if (exact_ && header.length > 0 && connection_->error().empty()) {
          SLUICE_CHECK(sent_[id] <= first_window_ + credits_[id]);
          SLUICE_CHECK(sent_[0] <= int64_t{kHttp2FirstWindow} + credits_[0]);
        }
        if (end) over_.insert(id);
        return;
      case Type::kRstStream:
        SLUICE_CHECK(header.length == 4 && id != 0);
        over_.insert(id);
        return;
      case Type::kSettings:
        SLUICE_CHECK(id == 0 && header.length % 6 == 0);
        return;
      case Type::kPing:
        SLUICE_CHECK(id == 0 && header.length == 8);
        return;
      case Type::kGoaway:
        SLUICE_CHECK(id == 0 && header.length >= 8);
        return;
      case Type::kWindowUpdate:
        SLUICE_CHECK(header.length == 4 && read_frame_u32(std::as_bytes(std::span(payload)), 0) > 0);
        return;
      default:
        SLUICE_CHECK(false);
    }
  }

  ChunkPool& pool_;
  ChunkPool::Use use_{&pool_};
  Http2Limits limits_;
  Http2Counters counters_;
  const Http2Codec::Shared shared_{pool_, limits_, counters_};
  Http2Codec* connection_ = nullptr;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  bool server_ = true;
  size_t cut_ = 0;
  uint64_t now_ms_ = 0;
  uint8_t next_act_ = 0;

  // The peer's windows, as long as everything it sends is known.
  bool exact_ = true;
  int64_t first_window_ = kHttp2FirstWindow;
  std::map<uint32_t, int64_t> credits_, sent_;

  std::string wire_, block_;
  std::optional<HpackDecoder> decoder_{std::in_place};
  bool preface_seen_ = false;
  uint32_t block_of_ = 0, ending_ = 0;
  std::set<uint32_t> open_, over_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Shared by all inputs: creating one takes longer than most inputs.
  static sluice::ChunkPool pool({.budget_bytes = size_t{64} << 20});
  sluice::Fuzz(pool, data, size).run();
  return 0;
}

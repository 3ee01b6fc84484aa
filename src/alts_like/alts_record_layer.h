#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "alts_like/alts_keys.h"
#include "alts_like/record_layer.h"
#include "buffer/buffer.h"

namespace sluice {

/// Where an ALTS connection stands once its handshake is done: plain data, and the bytes that arrived of a frame that
/// is not complete yet. Enough to go on in another process.
struct AltsState {
  static constexpr size_t kMinFrameBytes = 1024;  // What peers may agree on,
  static constexpr size_t kMaxFrameBytes = size_t{1} << 20;
  static constexpr size_t kDefaultFrameBytes = 4096;  // and what they take when they say nothing.

  struct Flags {
    bool is_client = false;
    /// An empty frame says that nothing more follows. Only between two that agree on it: ALTS has no such thing.
    bool authenticated_end = false;
    bool ended = false;          ///< The peer said so.
    uint8_t empty_in_a_row = 0;  ///< Empty frames, of which only so many are borne.
  };
  AltsProtocol protocol = AltsProtocol::kAes128GcmRekey;
  AltsKeys::Secret secret{};
  AltsCounter read;
  AltsCounter write;
  uint32_t max_frame_bytes = kDefaultFrameBytes;  ///< Of a frame that we send, all of it.
  Flags flags;

  /// From what a handshake gives: nothing when the key data are too short; what they have too much is not used.
  /// `max_frame_bytes` is brought within its bounds.
  static std::optional<AltsState> from(AltsProtocol protocol, std::span<const uint8_t> key_data, bool is_client,
                                       size_t max_frame_bytes = kDefaultFrameBytes);
};

/// The record protocol of ALTS. A frame is its length, a type, ciphertext and a tag; it is opened where the kernel put
/// it, also across chunks. There are no alerts. It has no end but the stream's, which anybody can bring about, unless
/// both sides agree on AltsState::Flags::authenticated_end.
///
/// When no counter is left, in either direction, the connection has failed: nothing more is opened or sealed.
class AltsRecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kHeaderBytes = 8;
  static constexpr size_t kOverheadBytes = kHeaderBytes + AltsKeys::kTagBytes;
  static constexpr uint32_t kFrameType = 6;
  /// What a frame's length may say: what follows it. Some writers (gRPC's zero-copy protector) take 4 bytes too many.
  static constexpr size_t kMinLength = kOverheadBytes - 4;
  static constexpr size_t kMaxLength = AltsState::kMaxFrameBytes + 4;
  /// We send no larger ones. Against 16 KiB it saves 5 to 7 % of the work; twice as much would save 2 to 4 % more, for
  /// twice the delay, and not fit the buffers that grpc-go reads into.
  static constexpr size_t kBestFrameBytes = 32 * 1024 - 64 + kOverheadBytes;

  /// `arrived`: bytes that came behind the handshake.
  explicit AltsRecordLayer(const AltsState& state, Buffer arrived = {});

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  bool has_output() const override { return false; }
  void flush(ChunkPool&, Buffer&) override {}
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  bool tells_end() const override { return flags_.authenticated_end; }
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// The state to go on from. Precondition: no failure was met.
  AltsState state() const;
  /// The bytes of a frame that is not complete, to go with the state.
  Buffer take_partial() { return std::move(partial_); }

 private:
  bool open_frame(ChunkPool& pool, Buffer& plain);
  bool fail(std::string_view error);
  void seal_frame(ChunkPool& pool, Buffer&& body, Buffer& wire);

  AltsKeys keys_;
  AltsState::Flags flags_;
  uint32_t max_frame_bytes_;
  Buffer partial_;  // The beginning of a frame.
  std::string_view error_;
  uint64_t sealed_bytes_ = 0;  // Since the connection began or was parked.
  Status status_ = Status::kOpen;
};

}  // namespace sluice

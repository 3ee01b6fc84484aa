#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "alts_like/alts_keys.h"
#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"
#include "buffer/buffer.h"

namespace sluice {

/// Where an ALTS connection stands once its handshake is done: plain data, and the bytes that arrived of a frame that
/// is not complete yet. Enough to go on in another process.
struct AltsState {
  // Bytes of a whole frame, as in gRPC's core: what a writer may be told (alts_frame_protector.cc),
  static constexpr size_t kMinFrameBytes = 1024;
  static constexpr size_t kMaxFrameBytes = size_t{1} << 20;
  // and the least that a handshake agrees on (alts_tsi_handshaker.h), also where one side names no size. (grpc-go
  // writes 4 KiB then; it reads any.)
  static constexpr size_t kMinAgreedFrameBytes = size_t{16} * 1024;

  struct Flags {
    /// An empty frame says that nothing more follows. Only between two that agree on it: ALTS has no such thing.
    bool authenticated_end = false;
    bool ended = false;          ///< The peer said so.
    uint8_t empty_in_a_row = 0;  ///< Empty frames, of which only so many are borne.
  };
  AltsProtocol protocol = AltsProtocol::kAes128GcmRekey;
  AltsKeys::Secret secret{};
  AltsCounter read;
  AltsCounter write;
  uint32_t max_frame_bytes = kMinAgreedFrameBytes;  ///< Of a frame that we send, all of it.
  Flags flags;

  /// From what a handshake gives: nothing when the key data are too short; what they have too much is not used.
  /// `max_frame_bytes` is brought within its bounds.
  static std::optional<AltsState> from(AltsProtocol protocol, std::span<const uint8_t> key_data, bool is_client,
                                       size_t max_frame_bytes);
};

/// The record protocol of ALTS. A frame is its length, a type, ciphertext and a tag; it is opened where the kernel put
/// it, also across chunks. There are no alerts. It has no end but the stream's, which anybody can bring about, unless
/// both sides agree on AltsState::Flags::authenticated_end.
///
/// When no counter is left, in either direction, the connection has failed: nothing more is opened or sealed. After a
/// seal() that found none, error() says so at once.
class AltsRecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kHeaderBytes = 8;
  static constexpr size_t kOverheadBytes = kHeaderBytes + AltsKeys::kTagBytes;
  static constexpr uint32_t kFrameType = 6;
  /// What a frame's length may say, which counts what follows it: type, ciphertext and tag. At most 1 MiB, so that the
  /// whole frame has 4 bytes more; this much grpc-go and gRPC's core read. No writer needs more, once 1 MiB is agreed
  /// on: to most that is the whole frame, to core's zero-copy protector it is what the length says.
  static constexpr size_t kMinLength = kOverheadBytes - 4;
  static constexpr size_t kMaxLength = AltsState::kMaxFrameBytes;
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
  bool in_record() const override { return !partial_.empty(); }
  bool write_state(SecretBytes& out) override;
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// The state to go on from. Precondition: no failure was met.
  AltsState state() const;
  /// Behind the protocol's number; null if that is not what write_state writes.
  static std::unique_ptr<RecordLayer> read_state(ChunkPool& pool, StateReader& in);
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

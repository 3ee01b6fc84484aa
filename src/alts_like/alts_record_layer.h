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
#include "sluice/buffer.h"

namespace sluice {

/// The state of an ALTS connection after its handshake, as plain data. Together with the bytes of an incomplete frame
/// (AltsRecordLayer::take_partial) it suffices to resume the connection in another process.
struct AltsState {
  // Bounds on the size of a whole frame that a writer may be given, as in gRPC's core (alts_frame_protector.cc).
  static constexpr size_t kMinFrameBytes = 1024;
  static constexpr size_t kMaxFrameBytes = size_t{1} << 20;
  // The smallest frame size that a handshake agrees on (alts_tsi_handshaker.h), also if one side names no size.
  // (grpc-go then writes 4 KiB; it reads any size.)
  static constexpr size_t kMinAgreedFrameBytes = size_t{16} * 1024;

  struct Flags {
    /// An empty frame ends its direction. Both peers must have agreed on it, because ALTS itself has no end.
    bool authenticated_end = false;
    bool ended = false;          ///< The peer has sent its authenticated end.
    uint8_t empty_in_a_row = 0;  ///< Consecutive empty frames; bounded.
  };
  AltsProtocol protocol = AltsProtocol::kAes128GcmRekey;
  AltsKeys::Secret secret{};
  AltsCounter read;
  AltsCounter write;
  uint32_t max_frame_bytes = kMinAgreedFrameBytes;  ///< The largest whole frame that we send.
  Flags flags;

  /// Makes the state from a handshake's result. Nothing if the key data is too short; excess key data is ignored.
  /// `max_frame_bytes` is clamped to kMinFrameBytes and kMaxFrameBytes.
  static std::optional<AltsState> from(AltsProtocol protocol, std::span<const uint8_t> key_data, bool is_client,
                                       size_t max_frame_bytes);
};

/// The record protocol of ALTS. A frame consists of its length, a type, ciphertext and a tag; it is opened where the
/// kernel put it, also across chunks. There are no alerts. The only end is the end of the stream, which an attacker on
/// the network can forge, unless both sides agree on AltsState::Flags::authenticated_end.
///
/// When a direction's counter is exhausted, the connection has failed: nothing more is opened or sealed. If seal()
/// finds it so, error() is set at once.
class AltsRecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kHeaderBytes = 8;
  static constexpr size_t kOverheadBytes = kHeaderBytes + AltsKeys::kTagBytes;
  static constexpr uint32_t kFrameType = 6;
  /// Bounds on a frame's length field, which counts the bytes after it: type, ciphertext and tag. It is at most 1 MiB,
  /// so a whole frame has 4 bytes more; grpc-go and gRPC's core read that much. No writer needs more when 1 MiB was
  /// agreed on: most take it as the size of the whole frame, core's zero-copy protector as the length field.
  static constexpr size_t kMinLength = kOverheadBytes - 4;
  static constexpr size_t kMaxLength = AltsState::kMaxFrameBytes;
  /// The largest frame that we send. Compared with 16 KiB it saves 5 to 7 % of the work. Twice the size would save 2 to
  /// 4 % more, but double the delay and not fit the buffers that grpc-go reads into.
  static constexpr size_t kBestFrameBytes = 32 * 1024 - 64 + kOverheadBytes;

  /// `arrived`: bytes that followed the handshake.
  explicit AltsRecordLayer(const AltsState& state, Buffer arrived = {});

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  bool has_output() const override { return false; }
  void flush(ChunkPool&, Buffer&) override {}
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  bool has_authenticated_end() const override { return flags_.authenticated_end; }
  bool in_record() const override { return !partial_.empty(); }
  bool write_state(SecretBytes& out) override;
  std::string_view protocol() const override { return "ALTS"; }
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// The state to resume from, without the buffered bytes. Precondition: the status is not kFailed.
  AltsState state() const;
  /// Restores a layer from the bytes after the protocol number. Null if they are not what write_state writes.
  static std::unique_ptr<RecordLayer> read_state(ChunkPool& pool, StateReader& in);
  /// Moves out the bytes of an incomplete frame, which belong with the state.
  Buffer take_partial() { return std::move(partial_); }

 private:
  bool open_frame(ChunkPool& pool, Buffer& plain);
  bool fail(std::string_view error);
  void seal_frame(ChunkPool& pool, Buffer&& body, Buffer& wire);

  AltsKeys keys_;
  AltsState::Flags flags_;
  uint32_t max_frame_bytes_;
  Buffer partial_;  // The beginning of an incomplete frame.
  std::string_view error_;
  uint64_t sealed_bytes_ = 0;  // Since the connection began or was parked.
  Status status_ = Status::kOpen;
};

}  // namespace sluice

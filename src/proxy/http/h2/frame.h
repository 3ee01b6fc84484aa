#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/http/message/stream.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

// Frames of HTTP/2: RFC 9113 sections 4 and 6, RFC 8441, RFC 9218.

enum class Http2FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
  kPriorityUpdate = 16,
};

/// The name in RFC 9113 section 6; `a frame of an unknown type` for others.
std::string_view http2_frame_name(Http2FrameType type);

enum class Http2Error : uint32_t {
  kNoError = 0,
  kProtocolError = 1,
  kInternalError = 2,
  kFlowControlError = 3,
  kSettingsTimeout = 4,
  kStreamClosed = 5,
  kFrameSizeError = 6,
  kRefusedStream = 7,
  kCancel = 8,
  kCompressionError = 9,
  kConnectError = 10,
  kEnhanceYourCalm = 11,
  kInadequateSecurity = 12,
  kHttp11Required = 13,
};

/// The name in RFC 9113 section 7; empty for an unknown error code.
std::string_view http2_error_name(Http2Error error);

enum class Http2Setting : uint16_t {
  kHeaderTableSize = 1,
  kEnablePush = 2,
  kMaxConcurrentStreams = 3,
  kInitialWindowSize = 4,
  kMaxFrameSize = 5,
  kMaxHeaderListSize = 6,
  kEnableConnectProtocol = 8,
  kNoRfc7540Priorities = 9,
};

inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest payload unless SETTINGS allow more. We neither advertise nor send more.
inline constexpr uint32_t kHttp2FrameBytes = 16 * 1024;
inline constexpr uint32_t kHttp2FirstWindow = 65535;
inline constexpr int64_t kHttp2MaxWindow = 0x7fffffff;
inline constexpr uint32_t kHttp2MaxStream = 0x7fffffff;

struct Http2FrameHeader {
  static constexpr size_t kBytes = 9;
  static constexpr uint8_t kEndStream = 1;  // DATA, HEADERS
  static constexpr uint8_t kAck = 1;        // SETTINGS, PING
  static constexpr uint8_t kEndHeaders = 4;
  static constexpr uint8_t kPadded = 8;
  static constexpr uint8_t kPriority = 0x20;

  uint32_t length = 0;  ///< Bytes of payload; 24 bits.
  Http2FrameType type = Http2FrameType::kData;
  uint8_t flags = 0;
  uint32_t stream = 0;  ///< 31 bits.

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  /// Precondition: bytes.size() >= kBytes.
  static Http2FrameHeader read(std::span<const std::byte> bytes);
  void write(std::byte* to) const;
};

uint32_t read_frame_u32(std::span<const std::byte> bytes, size_t at);
void write_frame_u32(std::byte* to, uint32_t value);

/// Returns a lease of exactly `bytes` that continues `buffer` if possible, beyond the pool's budget if need be. The
/// caller writes to it, truncates it, and appends it to `buffer`. A new chunk has at least `chunk_bytes`. Precondition:
/// bytes <= kMaxChunkBytes.
Lease frame_room(ChunkPool& pool, Buffer& buffer, size_t bytes, size_t chunk_bytes = 256);
/// Appends a frame with a small payload.
void append_frame(ChunkPool& pool, Buffer& to, Http2FrameHeader header, std::span<const std::byte> payload);
/// Appends a frame whose payload is a single number: RST_STREAM or WINDOW_UPDATE.
void append_frame(ChunkPool& pool, Buffer& to, Http2FrameType type, uint32_t stream, uint32_t value);

/// The payload of SETTINGS.
class Http2SettingsList {
 public:
  void add(Http2Setting setting, uint32_t value);
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

 private:
  std::array<std::byte, 48> bytes_;
  size_t size_ = 0;
};

/// Convert between our reset reasons and the error codes of RST_STREAM. `tunnel` marks an extended CONNECT, where
/// CANCEL stands for a TCP reset (RFC 8441 section 5).
Http2Error http2_error(ResetReason reason, bool tunnel);
ResetReason reset_reason(uint32_t http2_error);

}  // namespace sluice

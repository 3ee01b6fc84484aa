#include "proxy/http/h2/frame.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace sluice {

uint32_t read_frame_u32(std::span<const std::byte> bytes, size_t at) {
  SLUICE_DCHECK(at + 4 <= bytes.size());
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  return value;
}

void write_frame_u32(std::byte* to, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (24 - 8 * i));
}

Http2FrameHeader Http2FrameHeader::read(std::span<const std::byte> bytes) {
  const uint32_t length_and_type = read_frame_u32(bytes, 0);
  return {.length = length_and_type >> 8,
          .type = static_cast<Http2FrameType>(length_and_type & 0xff),
          .flags = static_cast<uint8_t>(bytes[4]),
          .stream = read_frame_u32(bytes, 5) & kHttp2MaxStream};  // The reserved bit is ignored.
}

void Http2FrameHeader::write(std::byte* to) const {
  SLUICE_DCHECK(length < uint32_t{1} << 24 && stream <= kHttp2MaxStream);
  write_frame_u32(to, length << 8 | static_cast<uint32_t>(type));
  to[4] = static_cast<std::byte>(flags);
  write_frame_u32(to + 5, stream);
}

Lease frame_room(ChunkPool& pool, Buffer& buffer, size_t bytes, size_t chunk_bytes) {
  if (buffer.tailroom() >= bytes) {
    Lease lease = buffer.reserve(pool, bytes);
    lease.truncate(bytes);
    return lease;
  }
  Lease lease(ChunkRef::take(pool.get_metadata(std::max(bytes, chunk_bytes))), 0, 0);
  lease.grow_back(bytes);
  return lease;
}

void append_frame(ChunkPool& pool, Buffer& to, Http2FrameHeader header, std::span<const std::byte> payload) {
  header.length = static_cast<uint32_t>(payload.size());
  Lease room = frame_room(pool, to, Http2FrameHeader::kBytes + payload.size());
  header.write(room.data());
  if (!payload.empty()) std::memcpy(room.data() + Http2FrameHeader::kBytes, payload.data(), payload.size());
  to.append(std::move(room));
}

void append_frame(ChunkPool& pool, Buffer& to, Http2FrameType type, uint32_t stream, uint32_t value) {
  std::array<std::byte, 4> payload;
  write_frame_u32(payload.data(), value);
  append_frame(pool, to, {.type = type, .stream = stream}, payload);
}

void Http2SettingsList::add(Http2Setting setting, uint32_t value) {
  SLUICE_CHECK(size_ + 6 <= bytes_.size());
  const auto name = static_cast<uint16_t>(setting);
  bytes_[size_] = static_cast<std::byte>(name >> 8);
  bytes_[size_ + 1] = static_cast<std::byte>(name);
  write_frame_u32(&bytes_[size_ + 2], value);
  size_ += 6;
}

std::string_view http2_frame_name(Http2FrameType type) {
  switch (type) {
    case Http2FrameType::kData:
      return "DATA";
    case Http2FrameType::kHeaders:
      return "HEADERS";
    case Http2FrameType::kPriority:
      return "PRIORITY";
    case Http2FrameType::kRstStream:
      return "RST_STREAM";
    case Http2FrameType::kSettings:
      return "SETTINGS";
    case Http2FrameType::kPushPromise:
      return "PUSH_PROMISE";
    case Http2FrameType::kPing:
      return "PING";
    case Http2FrameType::kGoaway:
      return "GOAWAY";
    case Http2FrameType::kWindowUpdate:
      return "WINDOW_UPDATE";
    case Http2FrameType::kContinuation:
      return "CONTINUATION";
    case Http2FrameType::kPriorityUpdate:
      return "PRIORITY_UPDATE";
  }
  return "a frame of an unknown type";
}

std::string_view http2_error_name(Http2Error error) {
  static constexpr std::string_view kNames[] = {
      "NO_ERROR",
      "PROTOCOL_ERROR",
      "INTERNAL_ERROR",
      "FLOW_CONTROL_ERROR",
      "SETTINGS_TIMEOUT",
      "STREAM_CLOSED",
      "FRAME_SIZE_ERROR",
      "REFUSED_STREAM",
      "CANCEL",
      "COMPRESSION_ERROR",
      "CONNECT_ERROR",
      "ENHANCE_YOUR_CALM",
      "INADEQUATE_SECURITY",
      "HTTP_1_1_REQUIRED",
  };
  const auto code = static_cast<uint32_t>(error);
  return code < std::size(kNames) ? kNames[code] : std::string_view();
}

Http2Error http2_error(ResetReason reason, bool tunnel) {
  switch (reason) {
    case ResetReason::kRefused:
      return Http2Error::kRefusedStream;
    case ResetReason::kMalformed:
      return Http2Error::kProtocolError;
    case ResetReason::kOverload:
      return Http2Error::kEnhanceYourCalm;
    case ResetReason::kConnectionLost:
      // A truncated response must not look like a canceled one.
      return tunnel ? Http2Error::kCancel : Http2Error::kInternalError;
    case ResetReason::kInternal:
    case ResetReason::kUnsendable:
      return Http2Error::kInternalError;
    case ResetReason::kRejected:
    case ResetReason::kCancelled:
    case ResetReason::kTooLarge:
    case ResetReason::kTimeout:
      break;
  }
  return Http2Error::kCancel;
}

ResetReason reset_reason(uint32_t http2_error) {
  switch (static_cast<Http2Error>(http2_error)) {
    case Http2Error::kNoError:  // The response is complete, and the rest of the request is not needed.
    case Http2Error::kCancel:
      return ResetReason::kCancelled;
    case Http2Error::kRefusedStream:
      return ResetReason::kRefused;
    case Http2Error::kEnhanceYourCalm:
      return ResetReason::kOverload;
    case Http2Error::kProtocolError:  // The message is malformed: RFC 9113 section 8.1.1.
    case Http2Error::kHttp11Required:
      return ResetReason::kRejected;
    default:
      return ResetReason::kInternal;
  }
}

}  // namespace sluice

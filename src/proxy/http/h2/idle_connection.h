#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "proxy/http/h2/flood_limits.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/limits.h"

namespace sluice {

/// The part of a connection's state that lasts while it has no stream and nothing is in flight. Plain data.
struct Http2ConnectionState {
  explicit Http2ConnectionState(const Http2Limits& limits) : abuse_(limits) {}

  Http2Abuse abuse_;
  int64_t send_window_ = kHttp2FirstWindow;
  int64_t receive_window_ = kHttp2FirstWindow;
  uint32_t credit_ = 0;  // Bytes consumed but not yet credited to the peer.
  uint32_t peer_stream_window_ = kHttp2FirstWindow;
  uint32_t peer_streams_ = UINT32_MAX;
  uint32_t peer_header_list_ = UINT32_MAX;
  uint32_t last_peer_id_ = 0;
  uint32_t requests_ = 0;
  uint32_t body_bytes_sent_ = 0;
  uint32_t greeted_ms_ = 0;     // When our SETTINGS were queued, modulo 2^32.
  uint32_t round_trip_ms_ = 0;  // The time until the peer acknowledged them, at least 1; 0: not known.
  // The most recent streams that ended normally or by the peer's reset: a frame for one of them is an error.
  std::array<uint32_t, 8> ended_{};
  uint8_t next_ended_ = 0;
  bool acknowledged_ = false;
  bool peer_takes_protocols_ = false;
};

/// An idle connection in one allocation of the exact size: its state and its header table. A codec takes four times as
/// much.
class IdleHttp2Connection {
 public:
  IdleHttp2Connection() = default;
  /// `table`: HpackDecoder::parked_block(). `encoder_table_bytes`: HpackEncoder::table_bytes().
  IdleHttp2Connection(const Http2ConnectionState& state, uint32_t encoder_table_bytes, std::span<const std::byte> table)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(sizeof(Fixed) + table.size())) {
    new (bytes_.get()) Fixed{state, encoder_table_bytes, static_cast<uint32_t>(table.size())};
    if (!table.empty()) std::memcpy(bytes_.get() + sizeof(Fixed), table.data(), table.size());
  }

  explicit operator bool() const { return bytes_ != nullptr; }
  // Precondition of the others: it holds a connection.
  const Http2ConnectionState& state() const { return fixed().state; }
  uint32_t encoder_table_bytes() const { return fixed().encoder_table_bytes; }
  std::span<const std::byte> table() const { return {bytes_.get() + sizeof(Fixed), fixed().table_bytes}; }

 private:
  struct Fixed {
    Http2ConnectionState state;
    uint32_t encoder_table_bytes;
    uint32_t table_bytes;
  };
  const Fixed& fixed() const { return *std::launder(reinterpret_cast<const Fixed*>(bytes_.get())); }

  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace sluice

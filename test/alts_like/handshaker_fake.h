// A fake HandshakerService for one handshake, without gRPC, in the dialects of two fakes in gRPC's own tests. The field
// numbers are written again here: they check those of handshaker.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice::test {

// ---- The part of Protobuf's wire format that is needed

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
inline std::string number_field(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string bytes_field(uint32_t field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}

/// A message's fields: numbers and bytes by field, in order.
struct WireMessage {
  std::multimap<uint32_t, uint64_t> numbers;
  std::multimap<uint32_t, std::string> bytes;

  static WireMessage of(std::string_view text) {
    WireMessage message;
    const auto take_varint = [&] {
      uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        SLUICE_CHECK(!text.empty());
        const auto byte = static_cast<uint8_t>(text.front());
        text.remove_prefix(1);
        value |= uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (!text.empty()) {
      const uint64_t tag = take_varint();
      const auto field = static_cast<uint32_t>(tag >> 3);
      const uint64_t value = take_varint();
      if ((tag & 7) == 0) {
        message.numbers.emplace(field, value);
        continue;
      }
      SLUICE_CHECK((tag & 7) == 2 && value <= text.size());
      message.bytes.emplace(field, text.substr(0, value));
      text.remove_prefix(value);
    }
    return message;
  }
  bool has(uint32_t field) const { return bytes.contains(field); }
  std::string text(uint32_t field) const {
    const auto at = bytes.find(field);
    return at == bytes.end() ? "" : at->second;
  }
  WireMessage message(uint32_t field) const { return of(text(field)); }
  uint64_t number(uint32_t field) const {
    const auto at = numbers.find(field);
    return at == numbers.end() ? 0 : at->second;
  }
};

// ---- The service's messages

struct FakeResult {
  std::string application_protocol = "grpc";
  std::string record_protocol = "ALTSRP_GCM_AES128_REKEY";
  std::string key_data = "negotiated-key-data-for-altsrp-gcm-aes128-rekey";
  std::string peer_account = "peer@example.com";
  std::string peer_hostname;  ///< Used instead, if not empty.
  std::string local_account = "local@example.com";
  bool with_versions = true;
  uint32_t max_major = 2, max_minor = 1, min_major = 2, min_minor = 1;
  uint32_t max_frame_bytes = 0;

  std::string bytes() const {
    const auto version = [](uint32_t field, uint32_t major, uint32_t minor) {
      return bytes_field(field, number_field(1, major) + number_field(2, minor));
    };
    std::string result =
        bytes_field(1, application_protocol) + bytes_field(2, record_protocol) + bytes_field(3, key_data);
    if (!peer_hostname.empty()) {
      result += bytes_field(4, bytes_field(2, peer_hostname));
    } else if (!peer_account.empty()) {
      result += bytes_field(4, bytes_field(1, peer_account));
    }
    if (!local_account.empty()) result += bytes_field(5, bytes_field(1, local_account));
    if (with_versions) {
      result += bytes_field(7, version(1, max_major, max_minor) + version(2, min_major, min_minor));
    }
    if (max_frame_bytes != 0) result += number_field(8, max_frame_bytes);
    return result;
  }
};

struct FakeResponse {
  std::string out_frames;
  uint64_t bytes_consumed = 0;
  std::optional<FakeResult> result;
  std::optional<std::pair<uint32_t, std::string>> status = std::pair<uint32_t, std::string>(0, "");

  std::string bytes() const {
    std::string response;
    if (!out_frames.empty()) response += bytes_field(1, out_frames);
    if (bytes_consumed != 0) response += number_field(2, bytes_consumed);
    if (result) response += bytes_field(3, result->bytes());
    if (status) response += bytes_field(4, number_field(1, status->first) + bytes_field(2, status->second));
    return response;
  }
};

// ---- One handshake

enum class FakeDialect : uint8_t { kGo, kCore };

/// Responds like the fakes of grpc-go and of gRPC core, but accepts split messages.
class FakeHandshake {
 public:
  explicit FakeHandshake(FakeDialect dialect, bool consumes_parts = true)
      : dialect_(dialect), consumes_parts_(consumes_parts) {}

  FakeResponse respond(std::string_view request_bytes) {
    const WireMessage request = WireMessage::of(request_bytes);
    FakeResponse response;
    if (request.has(1)) {
      is_client = true;
      start = request.message(1);
      response.out_frames = "ClientInit";
      return response;
    }
    if (request.has(2)) start = request.message(2);
    const std::string in = request.has(2) ? start.text(3) : request.message(3).text(1);
    const std::string& wanted = !is_client && !replied_ ? kClientInit : is_client ? server_flight() : kClientFinished;
    const std::string all = kept_ + in;
    if (all.size() < wanted.size() && wanted.starts_with(all)) {
      if (!consumes_parts_) return response;
      kept_ = all;
      response.bytes_consumed = in.size();
      return response;
    }
    if (!all.starts_with(wanted)) {
      response.status = {3, "unexpected handshake bytes"};
      return response;
    }
    response.bytes_consumed = wanted.size() - kept_.size();
    kept_.clear();
    if (!is_client && !replied_) {
      replied_ = true;
      response.out_frames = server_flight();
      return response;
    }
    if (is_client) response.out_frames = kClientFinished;
    response.result = result();
    return response;
  }

  FakeResult result() const {
    FakeResult made;
    if (dialect_ == FakeDialect::kGo) {
      made.peer_account = is_client ? "server@bar.com" : "client@baz.com";
      made.local_account.clear();
    } else {
      made.peer_account = "peer_identity";
      made.local_account = "local_identity";
      made.key_data = std::string(1024, '\0');
      made.max_frame_bytes = 16384;
    }
    return made;
  }

  bool is_client = false;
  WireMessage start;  ///< The start message of the client or of the server.

 private:
  static inline const std::string kClientInit = "ClientInit", kClientFinished = "ClientFinished";
  const std::string& server_flight() const {
    static const std::string go = "ServerInitServerFinished", core = "ServerInitAndFinished";
    return dialect_ == FakeDialect::kGo ? go : core;
  }

  const FakeDialect dialect_;
  const bool consumes_parts_;
  bool replied_ = false;
  std::string kept_;
};

}  // namespace sluice::test

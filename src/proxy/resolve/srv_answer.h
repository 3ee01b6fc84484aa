// Parses SRV records (RFC 2782) in a name server's answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

struct SrvRecord {
  uint16_t priority = 0;  ///< The lowest usable priority is preferred.
  uint16_t weight = 0;
  uint16_t port = 0;
  std::string target;

  bool operator==(const SrvRecord&) const = default;
};

struct SrvAnswer {
  std::vector<SrvRecord> records;  ///< Without records whose target is the root: no such service.
  uint32_t ttl_s = 0;              ///< The lowest TTL of all records in the answer; 0 without records.
};

/// The maximum number of SRV records that are read from an answer; the rest is ignored.
inline constexpr size_t kMaxSrvRecords = 1024;

/// Parses a message (RFC 1035 section 4.1) with its records of class IN, aliases included. Returns nullopt if it is
/// malformed.
std::optional<SrvAnswer> parse_srv_answer(std::span<const uint8_t> message);

}  // namespace sluice
